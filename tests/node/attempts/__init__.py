"""Tests of attempts: slots, leases, the warden, outcomes."""
