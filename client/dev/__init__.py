"""Nodes and etcd as child processes on loopback."""
