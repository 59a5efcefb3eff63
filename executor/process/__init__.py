"""Attempts as processes of this machine."""
