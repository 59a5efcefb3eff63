"""How much space is left on a node's disk, in steps, and what each step allows.

    AMPLE    everything
    LOW      requests that add load are refused; a node of a cluster hands its shards over
    SCARCE   likewise; and no fire begins an execution: it is recorded as missed

What reduces the load (cancel, pause, delete) is taken at every step, and so is what runs already.
"""

from enum import IntEnum

from rota.core.vocabulary.commands import Command, ResumeJob, SaveJob, Trigger


class DiskSpace(IntEnum):
    """A step; the module says what it allows. The less space there is, the higher it is."""

    AMPLE = 0
    LOW = 1
    SCARCE = 2


def adds_load(command: Command) -> bool:
    """Return True if a request for *command* is refused unless space is ample."""
    return isinstance(command, SaveJob | Trigger | ResumeJob)
