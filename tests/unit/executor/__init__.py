"""Tests of executors that need no process."""
