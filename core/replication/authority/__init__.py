"""Conditions under which a node may act: liveness, health, leases, eligibility as a stand-in."""
