"""Other schedulers beside rota, in one run on one machine: ``make bench-peers``.

    systems    what is compared, how it is configured, and what survives a loss of power
    servers    Redis, PostgreSQL and systems' own, started for a system and ended with it
    programs   where a program is, or how to get it; running it, and all that it starts
    apps/      the same calls for each: submit, at, chain, spawn, close; run in its own environment
    apps/drive what is measured, the same code for all

Every system runs the same Python function, which writes a line to a file: its number and the time.
So starts are seen from outside, and by the same clock. Systems take turns within a round, and what
is told are ratios to rota of the same round: figures of other runs, or machines, say nothing.
"""
