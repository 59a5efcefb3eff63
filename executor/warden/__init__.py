"""The warden: the process beside a node that owns its attempts; see docs/explanation/warden.md.

Reading order: `messages` (the protocol between node and warden), `program` (the process and its
guard), `server` and `hosted_executors` (the warden's side), `connections`, `node_link` and
`proxies` (the node's side), `journal` (attempts on disk), `watchdog` and `lease_groups` (kills
without the node), `on_death_requests`. Imports `kernel`; `hosted_executors` names the executors in
a table.
"""
