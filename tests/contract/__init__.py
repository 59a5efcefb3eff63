"""One suite for each seam, run on every implementation."""
