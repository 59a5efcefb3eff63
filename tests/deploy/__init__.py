"""Tests of deploy/ with the programs that use its files."""
