"""Writers of generated pages of docs/reference."""
