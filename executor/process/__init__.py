"""Attempts as processes of this machine.

Reading order: `executor` (threads, folders and the seam), `attempt` (one attempt from start to
end), `batching_thread`. Imports `launch`, `kernel`, `output` and `stop_ladder`, and no other
executor.
"""
