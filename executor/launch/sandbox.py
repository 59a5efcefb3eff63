"""Sandboxes of attempts, made by bubblewrap.

`wrapping` is a pure function that returns bubblewrap's options. `Bubblewrap` finds the program and
tries each kind of sandbox once on this machine; if a kind does not work, an attempt that requires
it fails: it is never run without its sandbox.

Every sandbox has its own namespaces for users, processes, IPC and the host's name, and one for the
network if the attempt has no access to it. The attempt runs as the user ``nobody``, without
capabilities and without a way to gain any (bubblewrap sets no_new_privs), except in user namespaces
that it makes itself; ``strict`` forbids these where bubblewrap supports it. The attempt ends with
bubblewrap, and bubblewrap with the thread that started it (``--die-with-parent``). The attempt's
private folder is its ``/tmp``, home and working directory: memory of limited size, like
``/dev/shm``. It can write nowhere else.

Options, including the task's environment, are passed to bubblewrap in a file in memory, so ``ps``
shows neither. Bubblewrap itself runs outside the sandbox and must not get that environment: an
LD_PRELOAD in it would run the task's code with the node's rights.
"""

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from rota.core.model.work import Sandbox, Work
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
_NO_USER_NAMESPACES = ("--disable-userns",)  # Since bubblewrap 0.8; not with a set-uid bwrap.
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SETTINGS = (  # Files that programs read, without those about this machine's services.
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
        alive: The end of a pipe that stays open until the sandbox ends.
        resolver: The file that becomes ``/etc/resolv.conf``.
    """

    alive: int
    resolver: int


class Mounted(NamedTuple):
    """A file or folder of the machine in a sandbox.

    Attributes:
        source: Its descriptor; its path only for a bubblewrap that takes no descriptors.
        target: Its path in the sandbox.
        is_writable: Whether the program may write to it.
    """

    source: int | str
    target: str
    is_writable: bool = False


class Proven(NamedTuple):
    """A bubblewrap that can make one kind of sandbox here.

    Attributes:
        path: The path of the program.
        options: Its options besides those of every sandbox.
        unenforced: One sentence for each rule of the profile that it cannot enforce.
        takes_descriptors: Whether it binds descriptors (``--bind-fd``), since 0.10 and in patched
            releases before.
    """

    path: str
    options: tuple[str, ...] = ()
    unenforced: tuple[str, ...] = ()
    takes_descriptors: bool = False


def rooms(*hidden: Path) -> Rooms:
    """Return the paths of this machine; *hidden* folders that do not exist are left out."""
    paths = (*_HIDDEN, *map(str, hidden))
    return Rooms(
        hidden=outermost(os.path.realpath(path) for path in paths if os.path.isdir(path)),
        resolver=os.path.realpath("/etc/resolv.conf"),
    )


def outermost(paths: Iterable[str]) -> tuple[str, ...]:
    """Return those of *paths* that are neither in another one nor in `PRIVATE`."""
    kept: list[str] = []
    for path in sorted(set(paths)):
        if not any(f"{path}/".startswith(f"{over}/") for over in (*kept, PRIVATE)):
            kept.append(path)
    return tuple(kept)


def has_egress(sandbox: Sandbox) -> bool:
    """Return True if *sandbox* can reach other machines, but not the loopback of this one."""
    return sandbox.profile == "strict" and sandbox.has_network


def wrapping(
    work: Work,
    *,
    options: tuple[str, ...],
    rooms: Rooms,
    tmp_bytes: int,
    mounted: Iterable[Mounted] = (),
    egress: Egress | None = None,
) -> tuple[str, ...]:
    """Return the options with which bubblewrap makes the sandbox of *work*.

    Args:
        work: The work; its profile is not ``none``.
        options: The additional options of the machine's bubblewrap (`Proven`).
        rooms: The paths of the machine.
        tmp_bytes: The size of `PRIVATE`, and of ``/dev/shm``, in bytes.
        mounted: The binds of the work, and those of rota.
        egress: The descriptors for a network, see `has_egress`; None without a network.
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
        *_binds(mounted),
        *("--dir", f"{PRIVATE}/{ARRANGED}"),
        # Last, as mount points of binds are made in these folders, which are in memory: the task
        # must not fill them.
        *(word for path in ("/dev", *empty) for word in ("--remount-ro", path)),
        *("--chdir", work.cwd or PRIVATE),
    )


def shows_machine(path: str, sandbox: Sandbox, rooms: Rooms) -> bool:
    """Return True if *path* is in a part of *sandbox* that shows folders of the machine.

    The other parts are in memory, and nothing but rota has made links there.
    """
    shown = (*_SYSTEM, *_SETTINGS) if sandbox.profile == "strict" else ("/",)
    hidden = (PRIVATE, *rooms.hidden) if sandbox.profile == "default" else ()
    return _is_in_any(path, shown) and not _is_in_any(path, hidden)


def _is_in_any(path: str, folders: Iterable[str]) -> bool:
    return any(f"{path}/".startswith(f"{each.rstrip('/')}/") for each in folders)


def setting(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the options that give the program *environment*, without bubblewrap's variables."""
    pairs = (word for pair in environment.items() for word in ("--setenv", *pair))
    return ("--clearenv", *pairs)


def environment_in(sandbox: Sandbox, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the part of the node's *environment* that applies in *sandbox*, with its changes.

    The variables of the task are added afterwards.
    """
    if sandbox.profile == "none":
        return dict(environment)
    inside = {name: value for name, value in environment.items() if name != "TMPDIR"}
    return inside | {"HOME": PRIVATE}


def unenforced(sandbox: Sandbox) -> tuple[str, ...]:
    """Return one sentence for each rule of *sandbox* that its profile cannot enforce."""
    if sandbox.profile != "none" or sandbox.has_network:
        return ()
    return ("the task has access to the network: the profile 'none' cannot prevent that",)


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
    # Replaces the machine's file, which may name a resolver on the machine's loopback.
    yield from ("--ro-bind-data", str(egress.resolver), "/etc/resolv.conf")
    yield from ("--sync-fd", str(egress.alive))


def _memory(path: str, size: int) -> Iterator[str]:
    yield from ("--perms", "0700", "--size", str(size), "--tmpfs", path)


def _binds(mounted: Iterable[Mounted]) -> Iterator[str]:
    for source, target, is_writable in mounted:
        option = "--bind" if is_writable else "--ro-bind"
        yield from (f"{option}-fd" if isinstance(source, int) else option, str(source), target)


class Bubblewrap:
    """The bubblewrap of this machine; to be used in one thread.

    Args:
        search_path: The node's PATH.
        rooms: The paths of the machine.
    """

    def __init__(self, search_path: str, rooms: Rooms) -> None:
        self.rooms = rooms
        self._search_path = search_path
        self._proven: dict[tuple[str, bool], Proven] = {}

    def proven_for(self, sandbox: Sandbox) -> Proven:
        """Return a bubblewrap that can make *sandbox* here.

        Raises:
            NoSandboxError: There is none. The next call looks for one again.
        """
        kind = sandbox.profile, sandbox.has_network
        if kind not in self._proven:
            self._proven[kind] = self._prove(sandbox)
        return self._proven[kind]

    def _prove(self, sandbox: Sandbox) -> Proven:
        if sandbox.profile not in PROFILES:
            known = ", ".join(PROFILES)
            raise NoSandboxError(
                f"there is no profile {sandbox.profile!r}; the profiles are {known}"
            )
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
                return bubblewrap._replace(takes_descriptors=_takes_descriptors(path))
        raise NoSandboxError(
            f"the profile {sandbox.profile!r} does not work on this node: {why_not}; "
            "see docs/reference/sandbox.md"
        )

    def _why_not(self, bubblewrap: Proven, sandbox: Sandbox) -> str:
        """Return why *bubblewrap* cannot make *sandbox*; empty if it can."""
        work = Work(sandbox=Sandbox(profile=sandbox.profile, has_network=sandbox.has_network))
        options = wrapping(
            work, options=bubblewrap.options, rooms=self.rooms, tmp_bytes=_PROBE_BYTES
        )
        argv = (bubblewrap.path, *options, "--", "true")
        ran = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_S)
        if ran.returncode == 0:
            return ""
        lines = ran.stderr.decode(errors="replace").splitlines()
        said = [line for line in lines if line.startswith("bwrap: ")]
        return " ".join(said) or f"bwrap exited with code {ran.returncode}"


def _takes_descriptors(path: str) -> bool:
    ran = subprocess.run(
        (path, "--help"), stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_S
    )
    return b"--ro-bind-fd " in ran.stdout + ran.stderr


def _candidates(path: str, profile: str) -> Iterator[Proven]:
    """Yield the ways to make sandboxes of *profile* with the bubblewrap at *path*, best first."""
    if profile != "strict":
        yield Proven(path)
        return
    yield Proven(path, _NO_USER_NAMESPACES)
    yield Proven(
        path, (), ("the task can make user namespaces: this node's bwrap cannot prevent that",)
    )
