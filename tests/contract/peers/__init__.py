"""Suites of networks between nodes."""
