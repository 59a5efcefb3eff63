"""Commands about the cluster, its nodes and shards, and the ring."""
