"""Instants, schedules and the timer wheel.

Reading order: `instants` (instants and durations in microseconds), `cron` (expressions), `schedule`
(fire times with time zones), `timer_wheel` (due timers). Imports nothing of rota but `core.errors`
and `core.quoting`; everything may import it.
"""
