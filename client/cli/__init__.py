"""The ``rota`` command: one module for each of its commands."""
