"""HTTP connections: server, guard against web pages, access log."""
