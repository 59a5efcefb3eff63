"""Tests of real processes under real faults, judged by what was observed from outside."""
