"""The replication protocol of one shard as a state machine without input and output.

`Replica` is one copy of a shard on one node. The node passes messages, answers and ticks in, and
carries out the `Ready` that comes out:

    propose, receive, tick,
    learn, answered, made_durable  ->  Replica  ->  Ready(writes, sends, swap)

Reading order: `messages`, `replica`, then the roles `backup` and `primary`, `reconfiguration` (the
primary's proposals), `local_copy` (journal and durability), `authority` (liveness, health, leases).
The rules are those of docs/explanation/protocol.md; a line that implements one cites it. Imports
`rota.core.vocabulary` and below, neither `state` nor `decide`.
"""
