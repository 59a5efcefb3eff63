"""Core of rota: the decisions of a scheduler, free of input and output.

Nothing here reads a clock, draws a random number, accesses a disk or awaits: time and entropy are
arguments, and intentions are returned as :mod:`rota.core.vocabulary.effects`.

Reading order: `model` and `timing` (records, schedules), `vocabulary` (commands in, changes and
effects out), `state` (a shard in memory), `decide` (the rules of scheduling), `replication` (the
protocol between the copies of a shard). `decide` and `replication` do not import each other. All
other rooms may import this one, and it imports none of them.
"""
