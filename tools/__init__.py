"""Generators of code and of pages of docs/reference; no part of the product."""
