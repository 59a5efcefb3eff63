"""Suites of stores and of what a node keeps in them."""
