"""The HTTP API: requests in, commands to shards, documents out."""
