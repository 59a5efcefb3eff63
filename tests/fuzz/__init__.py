"""Malformed requests, drawn from a seed, against a real node."""
