"""Benchmarks of single parts of a node: an executor, replication, the ring, HTTP, etcd."""
