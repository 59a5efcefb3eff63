"""Facts for decisions, compiled from the shared documents of this node.

Reading order: `pauses`, `shared_facts`.
"""
