"""The state of one shard in memory, and drafts of decisions over it.

Reading order: `shard_state` (tables and derived data), `draft` (the overlay that handlers write),
`stored_jobs` (a compact mapping of jobs). Imports `rota.core.vocabulary` and below; `decide` and
`rota.node` import it.
"""
