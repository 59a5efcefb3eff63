"""Streams of events and output, resumed after a lost connection."""
