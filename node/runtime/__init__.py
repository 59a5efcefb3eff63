"""Wiring and lifecycle of a node, its effects and its messages."""
