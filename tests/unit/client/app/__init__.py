"""Tests of the tasks of programs."""
