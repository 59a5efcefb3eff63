"""Tests of `rota.node.namespaces`."""
