"""Tests of the documentation: its examples and procedures on real nodes."""
