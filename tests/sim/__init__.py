"""Simulations on virtual time: a seed is a run."""
