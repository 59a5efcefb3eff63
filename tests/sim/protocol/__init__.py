"""Replication of one shard, simulated: the real `Replica`, and everything around it that fails."""
