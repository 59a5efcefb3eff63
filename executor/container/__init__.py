"""Attempts as containers of a Docker-compatible engine."""

from rota.executor.container.executor import ContainerExecutor
from rota.executor.container.leftovers import end_containers

__all__ = ["ContainerExecutor", "end_containers"]
