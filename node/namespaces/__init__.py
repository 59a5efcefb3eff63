"""Namespaces: their documents, and what tasks in them may do."""
