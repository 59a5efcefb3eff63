"""Mounts of a mount namespace, from ``/proc/PID/mountinfo``; see proc_pid_mountinfo(5).

A path proves nothing about what it shows: a link through ``/proc`` can lead into the mount
namespace of another process, where its owner has mounted what it likes. A mount is known by the
device, and by the folder of the device that is its root.
"""

import os
import re
from collections.abc import Iterable
from typing import NamedTuple

_ESCAPED = re.compile(r"\\([0-7]{3})")
_ANY = "surrogateescape"


class Mount(NamedTuple):
    """A mount.

    Attributes:
        number: Its number, which no other mount on the machine has now.
        parent: The number of the mount on which it is mounted.
        device: The device, ``major:minor``.
        root: The path, on the device, of the folder or file that is mounted.
        point: The path at which it is mounted.
        kind: The type of the file system.
    """

    number: int
    parent: int
    device: str
    root: str
    point: str
    kind: str


def mounts_of(pid: int | str = "self") -> list[Mount]:
    """Return the mounts of the namespace of *pid*, in the order in which they cover each other."""
    with open(f"/proc/{pid}/mountinfo", encoding="utf-8", errors=_ANY) as file:
        return [_mount_in(line) for line in file]


def mount_under(descriptor: int, mounts: Iterable[Mount]) -> Mount | None:
    """Return the one of *mounts* in which the file of a descriptor is; None if it is in no one."""
    with open(f"/proc/self/fdinfo/{descriptor}", encoding="ascii") as file:
        numbers = [int(line.split()[1]) for line in file if line.startswith("mnt_id:")]
    return next((each for each in mounts if each.number in numbers), None)


def as_bound(path: str, mount: Mount, mounts: Iterable[Mount], target: str) -> set[Mount]:
    """Return the mounts that a bind of *path*, with what is mounted below it, makes at *target*.

    Args:
        path: The path, without links.
        mount: The mount in which it is.
        mounts: All mounts of its namespace.
        target: The path at which it is bound.

    Returns:
        The mounts, with 0 as their numbers.
    """
    root = os.path.normpath(os.path.join(mount.root, os.path.relpath(path, mount.point)))
    below = (each for each in mounts if each.point.startswith(f"{path.rstrip('/')}/"))
    return {
        mount._replace(number=0, parent=0, root=root, point=target),
        *(
            each._replace(number=0, parent=0, point=target + each.point[len(path) :])
            for each in below
        ),
    }


def mounted_at(target: str, mounts: Iterable[Mount]) -> set[Mount]:
    """Return the last mount at *target*, and those below it, with 0 as their numbers.

    Mounts that it covers are left out: each mount comes after the one on which it is mounted.
    """
    found: dict[int, Mount] = {}
    for each in mounts:
        if each.point == target:
            found = {each.number: each}
        elif each.parent in found:
            found[each.number] = each
    return {each._replace(number=0, parent=0) for each in found.values()}


def _mount_in(line: str) -> Mount:
    before, _, after = line.partition(" - ")
    number, parent, device, root, point, *_ = before.split(" ")
    kind = after.split(" ")[0]
    return Mount(int(number), int(parent), device, _plain(root), _plain(point), kind)


def _plain(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), text)
