"""Executors for tests and simulations; no node uses them in production."""
