"""Comparison with other schedulers, in one run on one machine: ``make bench-peers``.

    systems    the compared systems: configuration, and data after a loss of power
    servers    Redis, PostgreSQL and systems' own, started for a system and ended with it
    programs   location of programs, or how to get them; running them with their children
    apps/      the same calls for each: submit, at, chain, spawn, close; run in its own environment
    apps/drive the measurements, the same code for all

Every system runs the same Python function, which writes a line to a file: its number and the time.
Starts are thus measured from outside, by the same clock. Systems take turns within a round, and the
report has ratios to rota of the same round: figures of other runs, or machines, cannot be compared.
"""
