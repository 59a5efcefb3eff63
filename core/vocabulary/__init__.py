"""Vocabulary of a shard: commands in, changes and effects out, their stored form, configurations.

Reading order: `commands` (requests to a shard), `changes` (tables and records), `effects` (actions
after the commit), `decision` (all of these for one command, and its inputs), then `codec` (records
as bytes), `journal` (entries and their hash chain), `shard_configuration` (primary and copies of a
shard) and `disk_space`.

Imports `rota.core.model` and `rota.core.timing`. `rota.core.state`, `decide` and `replication`
build on it, as do `rota.storage` and `rota.node`.
"""
