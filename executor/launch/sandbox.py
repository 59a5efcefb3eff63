"""Sandboxes: what an attempt is kept from, by bubblewrap.

`wrapped` is pure: from work and rooms to an argv. `Bubblewrap` finds the program and tries, once
for each kind of sandbox, whether it works on this machine; where it does not, an attempt that asks
for a sandbox fails: it is never run without.

Every sandbox has namespaces of its own for users, processes, IPC and the host's name, and for the
network if it is to have none. The attempt is ``nobody`` in it, without capabilities and without a
way to get any (bubblewrap sets no_new_privs), but in user namespaces of its own making, which
``strict`` forbids where bubblewrap knows how. It ends when bubblewrap does, and that ends when the
thread that started it does: ``--die-with-parent``. Its private folder is its ``/tmp``, its home and
where it begins: memory, with a size, as is ``/dev/shm``. Nothing else can be written to.

Options go to bubblewrap by a file in memory, the task's environment among them, so ``ps`` shows
neither. Bubblewrap itself, which is outside, must not see that environment: its LD_PRELOAD would be
code of the task's choice with the node's rights.
"""

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from rota.core.model.attempt import Bind, Sandbox, Work
from rota.core.model.work_checks import PROFILES

PRIVATE = "/tmp"
ARRANGED = ".rota-arranged"
"""A folder in `PRIVATE`, for whoever looks from outside: all that is seen inside is in place."""

_NOBODY = "65534"
_ISOLATION = (
    "--unshare-user",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
    "--uid",
    _NOBODY,
    "--gid",
    _NOBODY,
    "--die-with-parent",
    # There is no terminal to be kept from, but TERM must reach the program's group and not
    # bubblewrap, which would die of it and take the program along.
    "--new-session",
)
_NO_USER_NAMESPACES = ("--disable-userns",)  # Since 0.8; not where bwrap is set-uid.
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SETTINGS = (  # What programs look up, and nothing that is about this machine's services.
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/group",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/pki/tls",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/timezone",
)
_HIDDEN = ("/home", "/root", "/run", "/var/tmp")
_PROBE_S = 20.0
_PROBE_BYTES = 1 << 20


class NoSandboxError(Exception):
    """A sandbox cannot be made here; the message is for the owner of the job and of the node."""


class Rooms(NamedTuple):
    """What of this machine concerns the sandboxes of a node.

    Attributes:
        hidden: Folders that no sandbox sees into, absolute, without links: the data directory.
        resolver: Where ``/etc/resolv.conf`` leads to; it is seen though its folder is hidden.
    """

    hidden: tuple[str, ...]
    resolver: str


class Egress(NamedTuple):
    """What `rota.executor.launch.egress` needs of bubblewrap: descriptors that this inherits.

    Attributes:
        alive: Is kept open as long as the sandbox lives.
        resolver: A file, for ``/etc/resolv.conf``.
    """

    alive: int
    resolver: int


class Proven(NamedTuple):
    """A bubblewrap that can make one kind of sandbox here.

    Attributes:
        path: Its path.
        options: What it takes besides what every sandbox needs.
        unenforced: What of the profile it does without, a sentence each.
    """

    path: str
    options: tuple[str, ...] = ()
    unenforced: tuple[str, ...] = ()


def rooms(*hidden: Path) -> Rooms:
    """Return the rooms of this machine; *hidden* folders exist, as does each returned."""
    paths = (*_HIDDEN, *map(str, hidden))
    return Rooms(
        hidden=outermost(os.path.realpath(path) for path in paths if os.path.isdir(path)),
        resolver=os.path.realpath("/etc/resolv.conf"),
    )


def outermost(paths: Iterable[str]) -> tuple[str, ...]:
    """Return those of *paths* that lie neither in another one nor in `PRIVATE`."""
    kept: list[str] = []
    for path in sorted(set(paths)):
        if not any(f"{path}/".startswith(f"{over}/") for over in (*kept, PRIVATE)):
            kept.append(path)
    return tuple(kept)


def has_egress(sandbox: Sandbox) -> bool:
    """Return True if *sandbox* is to reach other machines, and not this one's loopback."""
    return sandbox.profile == "strict" and sandbox.has_network


def wrapping(
    work: Work, *, options: tuple[str, ...], rooms: Rooms, tmp_bytes: int, egress: Egress | None
) -> tuple[str, ...]:
    """Return the options with which bubblewrap makes the sandbox of *work*.

    Args:
        work: Whose profile is not ``none``.
        options: What the machine's bubblewrap takes besides.
        rooms: Of the machine.
        tmp_bytes: Size of `PRIVATE`, and of ``/dev/shm``.
        egress: Descriptors for a network of `has_egress`; None for none.
    """
    sandbox = work.sandbox
    if sandbox.profile == "default":
        view, empty = _everything(rooms), rooms.hidden
    else:
        view, empty = _system_only(), ("/",)
    is_cut_off = sandbox.profile == "strict" or not sandbox.has_network
    return (
        *_ISOLATION,
        *options,
        *(("--unshare-net",) if is_cut_off else ()),
        *view,
        *(_of_egress(egress) if egress is not None else ()),
        *("--proc", "/proc"),
        *("--dev", "/dev"),
        *_memory("/dev/shm", tmp_bytes),
        *_memory(PRIVATE, tmp_bytes),
        *_binds(sandbox.binds),
        *("--dir", f"{PRIVATE}/{ARRANGED}"),
        # Last, as places for binds are made in them: empty rooms are memory, and not to be filled.
        *(word for path in ("/dev", *empty) for word in ("--remount-ro", path)),
        *("--chdir", work.cwd or PRIVATE),
    )


def setting(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the options that give the program *environment*, and nothing of bubblewrap's own."""
    pairs = (word for pair in environment.items() for word in ("--setenv", *pair))
    return ("--clearenv", *pairs)


def environment_in(sandbox: Sandbox, environment: Mapping[str, str]) -> dict[str, str]:
    """Return what *environment* of the node becomes inside; a task's own comes after that."""
    if sandbox.profile == "none":
        return dict(environment)
    inside = {name: value for name, value in environment.items() if name != "TMPDIR"}
    return inside | {"HOME": PRIVATE}


def unenforced(sandbox: Sandbox) -> tuple[str, ...]:
    """Return what *sandbox* asks for without having a profile that could give it."""
    if sandbox.profile != "none" or sandbox.has_network:
        return ()
    return ("it has the network: the profile 'none' cannot take it away",)


def _everything(rooms: Rooms) -> Iterator[str]:
    yield from ("--ro-bind", "/", "/")
    for path in rooms.hidden:
        yield from ("--tmpfs", path)
        if rooms.resolver.startswith(f"{path}/"):
            yield from ("--ro-bind", rooms.resolver, rooms.resolver)


def _system_only() -> Iterator[str]:
    for path in (*_SYSTEM, *_SETTINGS):
        yield from ("--ro-bind-try", path, path)


def _of_egress(egress: Egress) -> Iterator[str]:
    # Instead of the machine's, which may name a resolver on its loopback.
    yield from ("--ro-bind-data", str(egress.resolver), "/etc/resolv.conf")
    yield from ("--sync-fd", str(egress.alive))


def _memory(path: str, size: int) -> Iterator[str]:
    yield from ("--perms", "0700", "--size", str(size), "--tmpfs", path)


def _binds(binds: tuple[Bind, ...]) -> Iterator[str]:
    for bind in binds:
        yield from ("--bind" if bind.is_writable else "--ro-bind", bind.source, bind.target)


class Bubblewrap:
    """The bubblewrap of this machine; for one thread.

    Args:
        search_path: The node's PATH.
        rooms: Of the machine.
    """

    def __init__(self, search_path: str, rooms: Rooms) -> None:
        self.rooms = rooms
        self._search_path = search_path
        self._proven: dict[tuple[str, bool], Proven] = {}

    def proven_for(self, sandbox: Sandbox) -> Proven:
        """Return a bubblewrap that can make *sandbox* here.

        Raises:
            NoSandboxError: There is none. It is looked for again the next time.
        """
        kind = sandbox.profile, sandbox.has_network
        if kind not in self._proven:
            self._proven[kind] = self._prove(sandbox)
        return self._proven[kind]

    def _prove(self, sandbox: Sandbox) -> Proven:
        if sandbox.profile not in PROFILES:
            known = ", ".join(PROFILES)
            raise NoSandboxError(f"there is no profile {sandbox.profile!r}; there are {known}")
        path = shutil.which("bwrap", path=self._search_path)
        if path is None:
            raise NoSandboxError(
                f"the profile {sandbox.profile!r} needs bubblewrap, and there is no bwrap in the "
                "node's PATH; install bubblewrap on this node"
            )
        why_not = ""
        for bubblewrap in _candidates(path, sandbox.profile):
            why_not = self._why_not(bubblewrap, sandbox)
            if not why_not:
                return bubblewrap
        raise NoSandboxError(
            f"the profile {sandbox.profile!r} does not work on this node: {why_not}; "
            "see docs/reference/sandbox.md"
        )

    def _why_not(self, bubblewrap: Proven, sandbox: Sandbox) -> str:
        """Return why *bubblewrap* cannot make *sandbox*; empty if it can."""
        work = Work(sandbox=Sandbox(profile=sandbox.profile, has_network=sandbox.has_network))
        options = wrapping(
            work, options=bubblewrap.options, rooms=self.rooms, tmp_bytes=_PROBE_BYTES, egress=None
        )
        argv = (bubblewrap.path, *options, "--", "true")
        ran = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_S)
        if ran.returncode == 0:
            return ""
        lines = ran.stderr.decode(errors="replace").splitlines()
        said = [line for line in lines if line.startswith("bwrap: ")]
        return " ".join(said) or f"bwrap exited with code {ran.returncode}"


def _candidates(path: str, profile: str) -> Iterator[Proven]:
    """Yield in which ways the bubblewrap at *path* may make sandboxes of *profile*, best first."""
    if profile != "strict":
        yield Proven(path)
        return
    yield Proven(path, _NO_USER_NAMESPACES)
    yield Proven(path, (), ("it can make user namespaces: bwrap here cannot prevent that",))
