"""Comparison with other schedulers, in one run on one machine: ``make bench-peers``.

    systems    the compared systems: their configuration, and their data after a loss of power
    servers    Redis, PostgreSQL and systems' own servers, which run during a system's turn
    programs   the paths of programs, or how to install them; running them with their children
    apps/      the same calls for each system: submit, at, chain, spawn, close; each app runs in the
               environment of its system
    apps/drive the measurements, the same code for all

Every system runs the same Python function, which writes a line to a file: its number and the time.
So starts are measured from outside, by the same clock. Systems take turns within a round, and the
report has the ratios to rota's figures in the same round: figures of different runs or machines
cannot be compared.
"""
