"""Tests of recovery after lost disks and lost state of the coordinator."""
