"""Kinds of shared documents; a module for each kind has the form and the checks of definitions."""
