"""A whole node, as users run it."""
