"""Decisions: the rules of scheduling, a module for each kind of command."""
