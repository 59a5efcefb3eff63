"""Requests that other nodes handle, in whole or in part: forwarding, batches, lists, events."""
