"""The web page: its files, which are built from ``ui/``, and their routes."""
