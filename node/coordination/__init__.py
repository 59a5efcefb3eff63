"""Who is alive and who owns what: the seam to a coordinator, and those that stand behind it."""
