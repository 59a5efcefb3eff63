"""Tests of the replication protocol."""
