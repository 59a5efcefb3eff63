"""Tests of the shards of one node: turns, timers, disks, comparison of copies."""
