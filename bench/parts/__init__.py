"""Parts of a node, each alone: what an executor, replication, the ring, HTTP or etcd takes."""
