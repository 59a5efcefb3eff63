"""Tests of the ``rota`` command against nodes."""
