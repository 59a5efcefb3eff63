"""The replication protocol of one shard: events in, what is to be written, sent and asked out.

Pure: no clock, no disk, no network. `Replica` is one copy of a shard on one node; the node hands it
messages, answers and the passing of time, and carries out what its `Ready` says:

    propose, receive, tick,
    learn, answered, made_durable  ->  Replica  ->  Ready(writes, sends, swap)

The rules are those of docs/explanation/protocol.md; the line that obeys one names it.
"""
