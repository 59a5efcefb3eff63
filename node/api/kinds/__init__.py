"""Kinds of shared documents: the form of their definitions, and the checks; one module per kind."""
