"""Tests of principals, grants and keys."""
