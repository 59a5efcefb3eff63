"""Measurement of the lateness that a cluster keeps under load."""
