"""Requests that several nodes answer: forwarding, batches, lists, events, writes."""
