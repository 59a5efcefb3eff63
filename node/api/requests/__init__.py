"""Declarations of operations and parameters, decoding of requests, and error documents."""
