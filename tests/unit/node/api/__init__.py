"""Tests of the API's parts."""
