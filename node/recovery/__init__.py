"""Recovery of a cluster or a shard after a loss of state."""
