"""Suites of clocks and of sources of randomness."""
