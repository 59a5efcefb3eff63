"""Commands about namespaces."""
