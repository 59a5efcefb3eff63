"""The rules of scheduling: one module for each kind of command.

Reading order: `dispatch` (the entry points `decide` and `pending`), `command_table` (the handler of
each command), `save_job`, `fire` and `advance_execution` (the life of a job and its executions),
then the rules that these use: `overlap`, `dependencies`, `outbox`, `idempotency`, `fallback`.

A handler reads and writes a `rota.core.state.draft.Draft`. Imports `rota.core.state` and below;
`rota.node` imports it, `rota.core.replication` does not.
"""
