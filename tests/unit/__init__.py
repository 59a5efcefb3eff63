"""Tests of the pure rooms: no IO, no clock, no sleep."""
