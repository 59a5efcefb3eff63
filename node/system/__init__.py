"""Configuration, clock, randomness, logs, metrics, disk space and the service manager."""
