"""What goes over HTTP between clients and nodes: documents and names of headers."""
