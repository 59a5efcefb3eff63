"""Tests of the ring."""
