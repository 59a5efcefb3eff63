"""Tests of the protocol of `rota mcp`."""
