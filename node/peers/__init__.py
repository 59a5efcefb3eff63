"""The other nodes: the network seam, messages between nodes and who may send them, their APIs."""
