"""Calls over HTTP: endpoints, tries and connections."""
