"""The state of one shard in memory, and drafts of decisions over it."""
