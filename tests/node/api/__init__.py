"""Tests of the API of a running node."""
