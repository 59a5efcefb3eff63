"""Control groups: sets of processes that the kernel limits, measures and kills together.

Both versions are supported, also side by side: each controller is in one hierarchy, of version 1 or
2 (see cgroups(7)). Groups are made below the group of this process, in a folder for the store.

Version 2 permits processes only in leaves of the hierarchy. So the processes in the group of this
process are moved into a leaf ``rota-host`` below it, as service managers that delegate a group
expect.
"""

import errno
import os
import signal
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rota.core.model.work import ResourceLimits
from rota.core.timing.instants import Duration

CONTROLLERS = ("cpu", "memory", "pids")

_HOST_LEAF = "rota-host"
_PERIOD_US = 100_000  # The kernel's default; a shorter period costs more context switches.
_QUOTA_US_MIN = 1_000  # The kernel's minimum.


class CgroupRoot(NamedTuple):
    """A folder in which groups can be made.

    Attributes:
        path: The folder.
        version: 1 or 2.
    """

    path: Path
    version: int


class Counted(NamedTuple):
    """The measurements of a group; a value that is not measured is zero.

    Attributes:
        cpu: The processor time.
        memory_peak: The largest use of memory, in bytes.
        oom_kills: The number of processes that were killed at the memory limit.
    """

    cpu: Duration
    memory_peak: int
    oom_kills: int


class Cgroups:
    """The control groups for attempts on this machine.

    Attributes:
        missing: For each controller without groups, the reason.
    """

    def __init__(self, name: str) -> None:
        """Try to make a folder *name* in every hierarchy.

        Processes in groups left by an earlier process are killed, and the groups removed.
        """
        self.missing: dict[str, str] = {}
        self._controllers: dict[str, CgroupRoot] = {}
        self._unified: CgroupRoot | None = None
        own, hierarchies = _own_groups(), list(mounts())
        for mount in hierarchies:
            if mount.version == 2:
                self._take_unified(_below(mount, own.get("", "/")), name)
        for controller in (*CONTROLLERS, "cpuacct"):
            for mount in hierarchies:
                if controller in mount.controllers:
                    self._take_v1(controller, _below(mount, own.get(controller, "/")) / name)
        for controller in CONTROLLERS:
            if controller not in self._controllers:
                self.missing.setdefault(controller, "no cgroup controller for it is mounted")

    def make(self, name: str, limits: ResourceLimits) -> "tuple[Cgroup | None, dict[str, str]]":
        """Return a group with *limits*, and for each limit that could not be set, the reason.

        The group is None if none could be made. The reasons are by controller.
        """
        failed: dict[str, str] = {}
        made: dict[str, CgroupRoot] = {}
        for controller in _wanted(limits):
            try:
                place = made[controller] = self._place_for(controller, name)
                for file, value, is_needed in settings(controller, place.version, limits):
                    _write(place.path / file, value, is_needed=is_needed)
            except OSError as error:
                failed[controller] = f"{error.filename or name}: {error.strerror}"
            except LookupError:
                failed[controller] = self.missing[controller]
        with suppress(OSError, LookupError):
            made["cpuacct"] = self._place_for("cpuacct", name)
        if self._unified is not None:
            with suppress(OSError):
                made["unified"] = _made(self._unified, name)
        return (Cgroup(made) if made else None), failed

    def close(self) -> None:
        """Remove the folders, if they are empty."""
        for place in self._places():
            with suppress(OSError):
                place.path.rmdir()

    def _places(self) -> set[CgroupRoot]:
        found = set(self._controllers.values())
        return found if self._unified is None else found | {self._unified}

    def _place_for(self, controller: str, name: str) -> CgroupRoot:
        return _made(self._controllers[controller], name)

    def _take_unified(self, own: Path, name: str) -> None:
        if own.name == _HOST_LEAF:
            own = own.parent
        try:
            offered = (own / "cgroup.controllers").read_text().split()
            usable = [controller for controller in CONTROLLERS if controller in offered]
            if usable:
                _hand_down(own, usable)
            _make_empty(own / name)
            if usable:
                _hand_down(own / name, usable)
        except OSError as error:
            for controller in CONTROLLERS:
                self.missing[controller] = f"{error.filename or own}: {error.strerror}"
            return
        self._unified = CgroupRoot(own / name, 2)
        self._controllers.update(dict.fromkeys(usable, self._unified))

    def _take_v1(self, controller: str, path: Path) -> None:
        try:
            _make_empty(path)
        except OSError as error:
            self.missing[controller] = f"{error.filename or path}: {error.strerror}"
            return
        self._controllers[controller] = CgroupRoot(path, 1)


class Cgroup:
    """The groups of one attempt, one in each hierarchy.

    Implements `rota.executor.kernel.process_trees.Tree`.
    """

    def __init__(self, places: Mapping[str, CgroupRoot]) -> None:
        self._places = places
        self._paths = {place.path for place in places.values()}

    @property
    def entrances(self) -> list[Path]:
        """The files to which a process writes its number, or 0, to become a member."""
        return [path / "cgroup.procs" for path in self._paths]

    def join(self, pid: int) -> None:
        """Move *pid* into the group; processes that it starts from now on are members as well.

        Raises:
            OSError: The process could not be moved into all groups.
        """
        for path in self.entrances:
            _write(path, str(pid))

    def members(self) -> list[int]:
        """Return all members."""
        with suppress(OSError):
            path = next(iter(self._paths))
            return [int(pid) for pid in (path / "cgroup.procs").read_text().split()]
        return []

    def kill(self) -> None:
        """Kill all members.

        In version 2 (from Linux 5.14), the kernel kills them in one step. Otherwise all members are
        stopped before the first is killed, so that they cannot fork in between, and `has_gone`
        tries again.
        """
        for path in self._paths:
            try:
                _write(path / "cgroup.kill", "1")
            except OSError:
                continue
            return
        members = self.members()
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in members:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)

    def has_gone(self) -> bool:
        """Return True if there are no members; otherwise kill those that remain."""
        if not self.members():
            return True
        self.kill()
        return False

    def counted(self) -> Counted:
        """Return the measurements so far."""
        cpu = peak = kills = 0
        for controller, place in self._places.items():
            path = place.path
            match controller, place.version:
                case ("cpu" | "unified", 2):
                    cpu = max(cpu, _field(path / "cpu.stat", "usage_usec"))
                case ("cpuacct", 1):
                    cpu = max(cpu, _field(path / "cpuacct.usage") // 1_000)
                case ("memory", 2):
                    peak = _field(path / "memory.peak")
                    kills = _field(path / "memory.events", "oom_kill")
                case ("memory", 1):
                    peak = _field(path / "memory.max_usage_in_bytes")
                    kills = _field(path / "memory.oom_control", "oom_kill")
                case _:
                    pass
        return Counted(Duration(cpu), peak, kills)

    def remove(self) -> None:
        """Remove the groups, which must have no members."""
        for path in self._paths:
            with suppress(OSError):
                path.rmdir()


def settings(controller: str, version: int, limits: ResourceLimits) -> list[tuple[str, str, bool]]:
    """Return the files to be written for the limit of *controller*, in the order of the writes.

    Returns:
        The name of each file, the value to be written, and whether the limit requires the file.
        Files that are not required exist only on some kernels: without the limit of swap, a
        program can use more than its memory limit by swapping.
    """
    quota_us = max(_QUOTA_US_MIN, round(limits.cpu * _PERIOD_US))
    match controller, version:
        case "cpu", 2:
            return [("cpu.max", f"{quota_us} {_PERIOD_US}", True)]
        case "cpu", _:
            return [
                ("cpu.cfs_period_us", str(_PERIOD_US), True),
                ("cpu.cfs_quota_us", str(quota_us), True),
            ]
        case "memory", 2:
            return [
                ("memory.max", str(limits.memory), True),
                ("memory.swap.max", "0", False),
                ("memory.oom.group", "1", False),
            ]
        case "memory", _:
            return [
                ("memory.limit_in_bytes", str(limits.memory), True),
                ("memory.memsw.limit_in_bytes", str(limits.memory), False),
            ]
        case _:
            return [("pids.max", str(limits.pids), True)]


def _wanted(limits: ResourceLimits) -> list[str]:
    return [controller for controller in CONTROLLERS if getattr(limits, controller)]


class Mount(NamedTuple):
    """A mounted cgroup hierarchy.

    Attributes:
        path: The mount point.
        root: The path, within the hierarchy, of the part that is mounted.
        version: 1 or 2.
        controllers: For version 1, the mount options, which include the controllers; empty for
            version 2.
    """

    path: Path
    root: str
    version: int
    controllers: frozenset[str]


def mounts() -> Iterator[Mount]:
    """Yield the hierarchies that are mounted for this process."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            before, _, after = line.rstrip("\n").partition(" - ")
            kind, _, options = after.split(" ", 2)
            _, _, _, root, path, *_ = before.split(" ")
            if kind in ("cgroup", "cgroup2"):
                version = 2 if kind == "cgroup2" else 1
                names = frozenset(options.split(",")) if version == 1 else frozenset[str]()
                yield Mount(Path(path), root, version, names)


def _own_groups() -> dict[str, str]:
    """Return the group of this process for each controller; version 2 has the key ""."""
    groups: dict[str, str] = {}
    with suppress(FileNotFoundError):  # The kernel has no cgroups.
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, names, path = line.split(":", 2)
            groups.update(dict.fromkeys(names.split(","), path))
    return groups


def _below(mount: Mount, group: str) -> Path:
    # In a container, only a part of the hierarchy is mounted; that part begins at `mount.root`.
    return Path(os.path.normpath(f"{mount.path}/{os.path.relpath(group, mount.root)}"))


def _hand_down(path: Path, controllers: Iterable[str]) -> None:
    """Enable *controllers* for the groups below *path*."""
    wish = " ".join(f"+{controller}" for controller in controllers)
    try:
        _write(path / "cgroup.subtree_control", wish)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        _move_members(path, path / _HOST_LEAF)
        _write(path / "cgroup.subtree_control", wish)


def _move_members(path: Path, leaf: Path) -> None:
    leaf.mkdir(exist_ok=True)
    for pid in (path / "cgroup.procs").read_text().split():
        with suppress(ProcessLookupError):
            _write(leaf / "cgroup.procs", pid)


def _make_empty(path: Path) -> None:
    path.mkdir(exist_ok=True)
    for left in path.iterdir():
        if left.is_dir():
            group = Cgroup({"left": CgroupRoot(left, 0)})
            group.kill()
            group.remove()  # If members have not ended yet, the next start removes the group.


def _made(place: CgroupRoot, name: str) -> CgroupRoot:
    path = place.path / name
    path.mkdir(exist_ok=True)
    return CgroupRoot(path, place.version)


def _write(path: Path, value: str, *, is_needed: bool = True) -> None:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, value.encode())
        finally:
            os.close(fd)
    except OSError as error:
        if is_needed:
            error.filename = str(path)
            raise


def _field(path: Path, name: str = "") -> int:
    """Return the number in a file, or in its line *name*; 0 if there is no number."""
    with suppress(OSError, ValueError):
        for line in path.read_text().splitlines():
            key, _, value = line.rpartition(" ")
            if key == name:
                return int(value)
    return 0
