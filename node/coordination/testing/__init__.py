"""A coordinator in memory for tests and simulations; no node uses it in production."""
