"""Tests of nodes that form a cluster."""
