"""Certificates of a cluster: authority, nodes and clients; needs `cryptography` (rota[node])."""
