"""The HTTP interface between clients and nodes: documents and names of headers."""
