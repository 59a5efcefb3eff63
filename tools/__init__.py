"""Generators of code and of pages of docs/reference; not part of the product."""
