"""Tests of the benchmarks on real nodes."""
