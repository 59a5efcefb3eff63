"""Cannot be imported."""

raise ValueError("this module has a fault")
