"""Whole nodes in one process, on virtual time: real node code in a simulated world."""
