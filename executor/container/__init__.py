"""Attempts as containers of a Docker-compatible engine.

Reading order: `executor` (the seam), `attempt` (one container from creation to removal), `creation`
(an order as the engine's JSON), `engine` (the engine's API), `init_process` (the container's first
process, seen from outside). Imports `launch`, `kernel`, `output` and `stop_ladder`, and no other
executor.
"""

from rota.executor.container.executor import ContainerExecutor
from rota.executor.container.leftovers import end_containers

__all__ = ["ContainerExecutor", "end_containers"]
