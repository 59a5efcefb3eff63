"""The image and the Compose file, on a real engine: `make containers`."""
