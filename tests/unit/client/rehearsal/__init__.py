"""Tests of rehearsals: jobs on virtual time."""
