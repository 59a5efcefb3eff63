"""Secrets of namespaces: the key ring, encrypted values, and their use by attempts."""
