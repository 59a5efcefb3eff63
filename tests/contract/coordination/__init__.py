"""Suites of coordinators."""
