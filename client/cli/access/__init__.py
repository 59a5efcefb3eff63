"""Commands about tokens, keys and roles."""
