"""Commands about the record of what users changed."""
