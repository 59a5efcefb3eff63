"""Levels of free space on a node's disk, and the limits at each level.

    AMPLE    none
    LOW      requests that add load are refused; a node of a cluster hands its shards over
    SCARCE   in addition, no fire starts an execution: the fire is recorded as missed

At every level, requests that reduce the load (cancel, pause, delete) are served, and running
executions continue.
"""

from enum import IntEnum

from rota.core.vocabulary.commands import Command, ResumeJob, SaveJob, Trigger


class DiskSpace(IntEnum):
    """A level, described in the module docstring; higher values mean less space."""

    AMPLE = 0
    LOW = 1
    SCARCE = 2


def adds_load(command: Command) -> bool:
    """Return True if a request for *command* is refused unless space is ample."""
    return isinstance(command, SaveJob | Trigger | ResumeJob)
