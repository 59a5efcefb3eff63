"""Namespaces: their documents, compiled for saves, decisions and launches.

Reading order: `policy` (what tasks may do), `namespaces`.
"""
