"""Handlers of the API's operations, one module for each subject."""
