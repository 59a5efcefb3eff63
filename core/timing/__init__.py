"""Instants, schedules and the timer wheel."""
