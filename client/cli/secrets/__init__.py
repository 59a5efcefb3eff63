"""Commands for secrets and key rings."""
