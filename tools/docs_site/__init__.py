"""Generator of the documentation as a site: `make site`."""
