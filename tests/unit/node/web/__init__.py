"""Tests of the routes of the web page."""
