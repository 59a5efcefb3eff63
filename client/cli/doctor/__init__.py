"""``rota doctor``: checks of a machine, its node and the cluster."""
