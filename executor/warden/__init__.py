"""The warden: the process beside a node that owns its attempts; docs/explanation/warden.md."""
