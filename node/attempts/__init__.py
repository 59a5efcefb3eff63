"""Slots and attempts: local, lent, outbound and inbound; their leases, progress, outcomes."""
