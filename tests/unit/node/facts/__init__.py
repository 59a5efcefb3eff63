"""Tests of `rota.node.facts`."""
