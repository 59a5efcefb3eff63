"""Resource limits of an attempt, set before its program starts.

The child of a fork moves itself into the attempt's cgroup before it becomes the program
(`Enclosure.enter`). So no instruction that a task chose, such as a library of its ``LD_PRELOAD``,
runs outside the cgroup.

If the machine permits no cgroup, the memory limit becomes RLIMIT_DATA of each process, which
applies to the heap and to private mappings. (RLIMIT_AS would count memory that is only reserved,
and end Go and Java programs at once; RLIMIT_NPROC counts all processes of the user.)
"""

import os
import resource
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import cached_property
from hashlib import blake2s
from typing import NamedTuple

from rota.core.model.work import ResourceLimits
from rota.executor.kernel.cgroups import Cgroup, Cgroups

_WHAT = {
    "cpu": "processors",
    "memory": "memory",
    "pids": "processes",
}


class Limited(NamedTuple):
    """The limits of one attempt that are in force.

    Attributes:
        cgroup: The attempt's cgroup; None without limits, or if the machine permits no cgroup.
        unenforced: One sentence for each limit that is not enforced, or only in part.
    """

    cgroup: Cgroup | None
    unenforced: tuple[str, ...]


UNLIMITED = Limited(None, ())


class Enclosure:
    """The limits of an attempt that has not started.

    Args:
        cgroup: Its cgroup; None if the machine permits none.
        failed: For each controller that cannot limit, the reason.
        limits: The limits.
    """

    def __init__(
        self, cgroup: Cgroup | None, failed: dict[str, str], limits: ResourceLimits
    ) -> None:
        self.cgroup = cgroup
        self._failed = failed
        self._limits = limits
        self._entrances: list[int] = []
        if cgroup is not None:
            try:
                for path in cgroup.entrances:
                    self._entrances.append(os.open(path, os.O_WRONLY | os.O_CLOEXEC))
            except OSError as error:
                self._fail(error)

    def enter(self) -> None:
        """Put this process under the limits: called between fork and exec, in one thread.

        An error is left to `verify`.
        """
        for entrance in self._entrances:
            with suppress(OSError):
                os.write(entrance, b"0")
        if self._limits.memory and "memory" in self._failed:
            # Last, as this process may use more than that already.
            with suppress(OSError, ValueError):
                most = self._limits.memory
                resource.setrlimit(resource.RLIMIT_DATA, (most, most))

    def verify(self, pid: int) -> Limited:
        """Return the limits that are in force for *pid*, the process that has entered."""
        if self.cgroup is not None:
            try:
                self.cgroup.join(pid)
            except ProcessLookupError:
                pass  # It has ended.
            except OSError as error:
                self._fail(error)
                with suppress(OSError, ValueError):
                    most = self._limits.memory or resource.RLIM_INFINITY
                    resource.prlimit(pid, resource.RLIMIT_DATA, (most, most))
        each = "the limit of memory applies to each process alone, not to all of them together"
        unenforced = tuple(
            f"{each if controller == 'memory' else f'the limit of {what} is not enforced'}: {why}"
            for controller, what in _WHAT.items()
            if getattr(self._limits, controller) and (why := self._failed.get(controller))
        )
        return Limited(self.cgroup, unenforced)

    def close(self) -> None:
        """Close the descriptors."""
        for entrance in self._entrances:
            os.close(entrance)

    def _fail(self, error: OSError) -> None:
        self._failed = dict.fromkeys(_WHAT, f"{error.filename}: {error.strerror}")


class Limiter:
    """Makes the cgroups of attempts; to be used in one thread.

    Args:
        store_id: Distinguishes this node's cgroups from those of others on the machine.

    Attributes:
        name: The name of the cgroup that contains the cgroups of the attempts.
    """

    def __init__(self, store_id: str) -> None:
        self.name = f"rota-{blake2s(store_id.encode(), digest_size=8).hexdigest()}"

    @cached_property
    def _cgroups(self) -> Cgroups:
        return Cgroups(self.name)

    @contextmanager
    def enclosed(self, name: str, limits: ResourceLimits) -> Generator[Enclosure]:
        """Make the cgroup *name*, in which the body starts a process; removed if the body fails.

        Limits that cannot be set are listed in `Limited.unenforced`.
        """
        cgroup, failed = self._cgroups.make(name, limits)
        enclosure = Enclosure(cgroup, failed, limits)
        try:
            yield enclosure
        except BaseException:
            if cgroup is not None:
                cgroup.remove()
            raise
        finally:
            enclosure.close()

    def close(self) -> None:
        """Remove the cgroups that contain the cgroups of the attempts."""
        if "_cgroups" in self.__dict__:
            self._cgroups.close()
