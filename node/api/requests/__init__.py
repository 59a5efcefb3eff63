"""Declared operations, parameters, error codes, decoding of requests, problems in answers."""
