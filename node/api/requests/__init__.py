"""Declarations of operations and parameters, decoding of requests, writes, and error documents."""
