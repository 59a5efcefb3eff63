"""Tests of ``rota audit`` and ``rota explain`` without a node."""
