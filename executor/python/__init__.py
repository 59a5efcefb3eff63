"""Attempts as calls of Python functions in warm worker processes."""
