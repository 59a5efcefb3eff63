"""Sandboxes of attempts, made by bubblewrap.

`wrapped` is pure: from work and hidden folders to an argv. `Bubblewrap` finds the program and tries
each kind of sandbox once on this machine; if it does not work, an attempt that requires a sandbox
fails: it is never run without one.

Every sandbox has its own namespaces for users, processes, IPC and the host's name, and one for the
network if the attempt has no access to it. The attempt runs as the user ``nobody``, without
capabilities and without a way to gain any (bubblewrap sets no_new_privs), except in user namespaces
that it makes itself; ``strict`` forbids these where bubblewrap supports it. The attempt ends with
bubblewrap, and bubblewrap with the thread that started it (``--die-with-parent``). The attempt's
private folder is its ``/tmp``, home and working directory: memory of limited size, like
``/dev/shm``. It can write nowhere else.

Options, including the task's environment, are passed to bubblewrap in a file in memory, so ``ps``
shows neither. Bubblewrap itself runs outside the sandbox and must not get that environment: its
LD_PRELOAD would be the task's code with the node's rights.
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
"""A folder in `PRIVATE` whose existence shows, from outside, that all mounts are in place."""

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
    # For signals, not for a terminal: TERM must reach the program's group and not bubblewrap,
    # whose end would kill the program.
    "--new-session",
)
_NO_USER_NAMESPACES = ("--disable-userns",)  # Since 0.8; not where bwrap is set-uid.
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SETTINGS = (  # Files that programs read, without any about this machine's services.
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
    """No sandbox can be made here; the message is for the owners of the job and of the node."""


class Rooms(NamedTuple):
    """The paths of this machine that the sandboxes of a node depend on.

    Attributes:
        hidden: Folders whose content the profile ``default`` hides, such as the data directory;
            absolute paths without symbolic links.
        resolver: The target of ``/etc/resolv.conf``; ``default`` shows it even in a hidden folder.
    """

    hidden: tuple[str, ...]
    resolver: str


class Egress(NamedTuple):
    """Descriptors for bubblewrap, made by `rota.executor.launch.egress`.

    Attributes:
        alive: Stays open in the sandbox until it ends.
        resolver: The file that becomes ``/etc/resolv.conf``.
    """

    alive: int
    resolver: int


class Proven(NamedTuple):
    """A bubblewrap that can make one kind of sandbox here.

    Attributes:
        path: Its path.
        options: Its options besides those of every sandbox.
        unenforced: The rules of the profile that it cannot enforce, a sentence each.
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
