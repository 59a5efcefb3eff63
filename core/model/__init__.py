"""Jobs, executions, tasks and attempts: records, their states, and rules of a single record.

Reading order: `ids` (names, and hash slots in ids), `work` (of a task), `job` (definition, plan),
`dag` (trigger rules), `execution` and `attempt` (states and endings), `ledger` (outcomes of fire
times), `retry`.

Imports `rota.core.timing`; everything else in rota may import it.
"""
