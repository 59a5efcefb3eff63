"""Commands about shared documents."""
