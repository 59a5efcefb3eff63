"""Tests of the client and the command that need no node."""
