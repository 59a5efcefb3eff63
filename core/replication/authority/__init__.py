"""Authority: the conditions under which a node may act for a shard.

Reading order: `liveness` (sessions and the view of other nodes), `health_conditions` and
`clock_skew` (conditions that make a node unfit), `lease_deadlines` (attempts on other nodes),
`fallback_eligibility` (standing in for a primary). Imported by `rota.core.replication` and, for
updates, by `rota.node`.
"""
