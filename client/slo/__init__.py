"""Measurement of a cluster's lateness under load."""
