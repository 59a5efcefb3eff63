"""Descriptions of the ways in which a container ends."""

import signal

from rota.core.model.work import Image, ResourceLimits
from rota.executor.container.engine import Resources


def reason_of(exit_code: int) -> str:
    """Return the meaning of *exit_code* in words; empty for a success."""
    if number := signal_of(exit_code):
        return f"ended by signal {number} ({_name_of(number)})"
    return f"exited with code {exit_code}" if exit_code else ""


def signal_of(exit_code: int) -> int:
    """Return the signal that *exit_code* stands for, or 0: as in shells, 128 plus its number."""
    number = exit_code - 128
    return number if number in signal.valid_signals() else 0


def not_there(image: Image) -> str:
    """Return the reason why *image* cannot be used, if its policy does not allow a pull."""
    return (
        f"the image {image.name!r} is not on the engine's machine and its pull policy is "
        f"{image.pull!r}; run `docker pull {image.name}` there, or set the policy to 'missing'"
    )


def unenforced(asked: ResourceLimits, given: Resources) -> tuple[str, ...]:
    """Return a sentence for each limit that the engine dropped, as its kernel has no such limit."""
    is_dropped = {
        "processors": asked.cpu > 0 and not (given.nano_cpus or given.cpu_quota),
        "memory": asked.memory > 0 and not given.memory,
        "processes": asked.pids > 0 and not given.pids_limit,
    }
    return tuple(
        f"the container engine's machine does not limit {what}"
        for what, is_so in is_dropped.items()
        if is_so
    )


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "a real-time signal"
