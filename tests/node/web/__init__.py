"""Tests of the web page that a node serves, in a browser too."""
