"""``rota certs``: certificates of nodes and clients."""
