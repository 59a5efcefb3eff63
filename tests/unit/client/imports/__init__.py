"""Tests of the imports of other schedulers' jobs."""
