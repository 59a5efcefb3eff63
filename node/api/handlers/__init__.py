"""Handlers of requests: a module for each subject of the API, which declares its operations.

Some modules declare none and serve several of the others: `idempotency`, `lookups`,
`job_references`, `last_executions`, `hook_warnings`, `calendar_users` and `coordinator_refusals`.
"""
