"""Real processes on hosts of their own, what is done to them, and what is written down of it."""
