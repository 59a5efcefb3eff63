"""Tests of the Python client against nodes."""
