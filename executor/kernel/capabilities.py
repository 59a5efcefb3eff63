"""Capabilities (capabilities(7)): the rights of root that running programs as other users needs.

A process of root has them, unless its container dropped some. Another process gets them as ambient
capabilities, such as by ``AmbientCapabilities`` of systemd. rota passes them from the node to the
warden and to no other process:

    node      permitted, none effective or ambient: it can pass them on, and has no right by them
    warden    effective, none ambient: the programs that it starts get none

The functions concern the calling thread, so they are called before there are others.
"""

import ctypes
import os
from collections.abc import Generator
from contextlib import contextmanager
from threading import Event

NEEDED = {
    "CAP_CHOWN": 0,  # To give a private folder to its user.
    "CAP_DAC_OVERRIDE": 1,  # To read the reports in such a folder, and to remove it.
    "CAP_FOWNER": 3,  # To remove folders whose user made them sticky.
    "CAP_KILL": 5,
    "CAP_SETGID": 6,
    "CAP_SETUID": 7,
    "CAP_SYS_PTRACE": 19,  # To find processes of an attempt by their environment.
}
"""The numbers of the capabilities, as in linux/capability.h."""
_VERSION = 0x20080522
_MASK = sum(1 << number for number in NEEDED.values())
_PR_CAP_AMBIENT = 47
_AMBIENT_RAISE, _AMBIENT_LOWER = 2, 3
_LIBC = ctypes.CDLL(None, use_errno=True)

_is_user = Event()
"""Set in a process that uses the capabilities, and in its forks."""


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    """The sets of the first 32 capabilities, or of the next 32."""

    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    )
    effective: int
    permitted: int
    inheritable: int


def lacks_permitted() -> list[str]:
    """Return the needed capabilities that this process cannot pass on; empty for none."""
    permitted = _read()[0].permitted
    return [name for name, number in NEEDED.items() if not permitted >> number & 1]


def lacks_effective() -> list[str]:
    """Return the needed capabilities that this process cannot use; empty for none."""
    effective = _read()[0].effective
    return [name for name, number in NEEDED.items() if not effective >> number & 1]


def needs(lacking: list[str]) -> str:
    """Return what a process lacks, in words for the owner of the node."""
    return f"it needs root, or these capabilities too: {', '.join(lacking)}"


def hold() -> None:
    """Keep the needed capabilities to pass them on, and have no right by them; not for root.

    Others, such as that for a port below 1024, stay as they are.
    """
    sets = _read()
    held = sets[0].permitted & _MASK
    if held and os.geteuid() != 0:
        sets[0].effective &= ~_MASK
        sets[0].inheritable |= held
        _write(sets)
        _lower(held)


def use() -> None:
    """Use the needed capabilities, and pass none on, others neither; not for root."""
    sets = _read()
    held = sets[0].permitted & _MASK
    if held and os.geteuid() != 0:
        sets[0].effective |= held
        sets[0].inheritable = sets[1].inheritable = 0  # This lowers the ambient ones, too.
        _write(sets)
        _is_user.set()


@contextmanager
def given_up() -> Generator[None]:
    """Have none of the capabilities in this thread while the body runs, if this process uses some.

    A program that is started in the body is found, and its working directory entered, without these
    rights: they have effect until its exec.
    """
    if not _is_user.is_set():  # As of nearly all nodes; a start of a program is a hot path.
        yield
        return
    sets = _read()
    used = sets[0].effective & _MASK
    sets[0].effective &= ~_MASK
    _write(sets)
    try:
        yield
    finally:
        sets[0].effective |= used
        _write(sets)


@contextmanager
def passed_on() -> Generator[None]:
    """Pass held capabilities on to the programs that this thread starts in the body."""
    held = 0 if os.geteuid() == 0 else _read()[0].inheritable & _MASK
    for number in _numbers(held):
        _call("prctl", _PR_CAP_AMBIENT, _AMBIENT_RAISE, number, 0, 0)
    try:
        yield
    finally:
        _lower(held)


def _lower(held: int) -> None:
    for number in _numbers(held):
        _call("prctl", _PR_CAP_AMBIENT, _AMBIENT_LOWER, number, 0, 0)


def _numbers(held: int) -> list[int]:
    return [number for number in NEEDED.values() if held >> number & 1]


def _read() -> "ctypes.Array[_Sets]":
    sets = (_Sets * 2)()
    _call("capget", ctypes.byref(_Header(_VERSION, 0)), sets)
    return sets


def _write(sets: "ctypes.Array[_Sets]") -> None:
    _call("capset", ctypes.byref(_Header(_VERSION, 0)), sets)


def _call(name: str, *arguments: object) -> None:
    if getattr(_LIBC, name)(*arguments):
        error = ctypes.get_errno()
        raise OSError(error, f"{name}: {os.strerror(error)}")
