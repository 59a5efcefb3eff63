"""Fallback decisions of available jobs, and their reconciliation with the shard."""
