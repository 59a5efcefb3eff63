"""The network between real nodes: one WebSocket for each pair; see docs/explanation/links.md."""
