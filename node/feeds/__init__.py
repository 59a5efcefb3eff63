"""Live events, and waiters for the end of executions."""
