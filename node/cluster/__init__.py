"""The node as a member of its cluster: session, health, placement of copies, drain."""
