"""Nodes, etcd, engines and servers for tests: started, driven and always ended."""
