"""Output of commands: tables, JSON, times for people, live updates."""
