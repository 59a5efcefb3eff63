"""Conversion between the API's documents and the records of the core."""
