"""Tests of commands, stored records and journal entries."""
