"""Tests of parts of a node that need no IO."""
