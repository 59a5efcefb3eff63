"""Attempts as calls of Python functions in warm worker processes.

Reading order: `executor` (the seam and one attempt), `pool` (which worker runs an attempt),
`worker_process` (a worker as seen by the executor), `worker_protocol` (messages between the two),
`worker` (the program that a worker runs, with the standard library alone). Imports `launch`,
`kernel`, `output` and `stop_ladder`, and no other executor.
"""
