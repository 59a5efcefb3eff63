"""Tokens of identity providers: OpenID Connect, and others that sign JSON Web Tokens."""
