"""Tests of instants, schedules and the timer wheel."""
