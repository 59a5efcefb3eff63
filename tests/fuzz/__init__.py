"""Requests of every kind of wrongness, drawn from a seed, against a real node."""
