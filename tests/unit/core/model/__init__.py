"""Tests of records and of the rules of one record alone."""
