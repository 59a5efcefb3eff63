"""Suites of executors and of what they are made of."""
