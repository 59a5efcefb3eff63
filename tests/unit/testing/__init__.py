"""Tests of `rota.testing`."""
