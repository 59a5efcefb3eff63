"""HTTP connections: server, guard against cross-site requests, logs."""
