"""The Model Context Protocol: its messages, a table of tools, and the bounds of their answers."""
