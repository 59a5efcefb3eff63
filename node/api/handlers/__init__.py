"""Handlers of the API's operations, a module for each subject."""
