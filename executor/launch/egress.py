"""Network of a sandbox that can reach other machines, but not the loopback of this machine.

The sandbox has a network namespace of its own, which contains neither the machine's loopback nor
its abstract sockets. Outside the sandbox, slirp4netns(1) forwards TCP and UDP from it as an
ordinary program would send them. Its option ``--disable-host-loopback`` blocks the address that
stands for the machine, but one way remains: a program can bind a socket to the device
(SO_BINDTODEVICE) and send to 127.0.0.1 over it, and slirp4netns then sends the data to the
machine's loopback (seen with 1.2.0: datagrams arrived, connections were opened). A ``prohibit``
route in the namespace blocks this way, and no process in the sandbox has the capability to remove
the route.

slirp4netns ends with the sandbox: bubblewrap keeps a pipe open until the sandbox ends.
"""

import fcntl
import os
import select
import shutil
import subprocess
from contextlib import ExitStack
from typing import NamedTuple

RESOLVER = b"nameserver 10.0.2.3\n"
"""At this address, slirp4netns gives the answers of the machine's resolver."""

_NS_GET_USERNS = 0xB701  # In linux/nsfs.h.
_READY_S = 10.0  # slirp4netns needs some milliseconds; the machine may be busy.
_ROUTE_S = 10.0
_END_S = 5.0
_SAID_BYTES = 400
_SYSTEM_PATH = "/usr/sbin:/sbin"  # The folders of `ip`, which not every PATH contains.
_PACKAGES = {
    "slirp4netns": "slirp4netns",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "ip": "iproute2",
}


class NoEgressError(Exception):
    """A sandbox cannot have this network; the message is for the owner of the node."""


class Tools(NamedTuple):
    """The paths of the programs that set up the network."""

    slirp4netns: str
    nsenter: str
    unshare: str
    ip: str


def find_tools(search_path: str) -> Tools:
    """Return the programs that are found in *search_path*, a PATH, or in the system's folders.

    Raises:
        NoEgressError: A program is missing.
    """
    path = f"{search_path}:{_SYSTEM_PATH}"
    found = {name: shutil.which(name, path=path) for name in _PACKAGES}
    if missing := [_PACKAGES[name] for name, at in found.items() if at is None]:
        raise NoEgressError(
            "a sandbox 'strict' with network needs slirp4netns, which keeps it from the machine's "
            f"loopback; install {', '.join(missing)} on this node, or set its network to false"
        )
    return Tools(**{name: str(at) for name, at in found.items()})


class Egresses:
    """The networks of sandboxes on this machine; to be used in one thread.

    Args:
        search_path: The node's PATH.
    """

    def __init__(self, search_path: str) -> None:
        self._search_path = search_path
        self._running: list[subprocess.Popen[bytes]] = []

    def prove(self) -> None:
        """Return if the programs that networks need are installed.

        Raises:
            NoEgressError: A program is missing.
        """
        find_tools(self._search_path)

    def connect(self, pid: int, alive: int) -> None:
        """Connect the network namespace of *pid*, in which no program runs yet.

        Args:
            pid: A process in the namespace.
            alive: A descriptor that hangs up when the namespace is not used any more.

        Raises:
            NoEgressError: The namespace cannot be connected.
        """
        tools = find_tools(self._search_path)
        self._running = [each for each in self._running if each.poll() is None]
        with ExitStack() as stack:
            network, owner = _namespaces_of(pid, stack)
            _close_loopback(tools, network, owner)
            self._running.append(_carry(tools, network, owner, alive))

    def close(self) -> None:
        """Wait for the processes of the networks; all sandboxes must have ended."""
        for process in self._running:
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running.clear()


def _namespaces_of(pid: int, stack: ExitStack) -> tuple[int, int]:
    """Return descriptors of the network namespace of *pid* and the user namespace that owns it."""
    try:
        network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        stack.callback(os.close, network)
        # Not the user namespace of the process: bubblewrap is in another one by then.
        owner = fcntl.ioctl(network, _NS_GET_USERNS)
        stack.callback(os.close, owner)
    except OSError as error:
        raise NoEgressError(
            f"the network namespace of the sandbox cannot be opened: {error.strerror}"
        ) from error
    return network, owner


def _close_loopback(tools: Tools, network: int, owner: int) -> None:
    ran = subprocess.run(
        (
            *(tools.nsenter, f"--user=/proc/self/fd/{owner}", f"--net=/proc/self/fd/{network}"),
            *("--preserve-credentials", tools.ip, "route", "add", "prohibit", "127.0.0.0/8"),
        ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        pass_fds=(network, owner),
        env={},
        timeout=_ROUTE_S,
    )
    if ran.returncode:
        why = ran.stderr.decode(errors="replace").strip()
        raise NoEgressError(f"the sandbox cannot be kept from the machine's loopback: {why}")


def _confined(tools: Tools) -> tuple[str, ...]:
    """Return the beginning of the command of slirp4netns, which hostile programs may attack."""
    # The sandbox of slirp4netns needs a group 0 in the user namespace, which only root can map.
    if os.geteuid() != 0:
        return (tools.slirp4netns, "--enable-seccomp")
    # That sandbox unmounts what it does not need, also below shared mounts: it unmounted the
    # machine's own /run/netns (seen with 1.2.0). With private mounts, this has no effect outside.
    alone = (tools.unshare, "--mount", "--propagation", "private")
    return (*alone, tools.slirp4netns, "--enable-seccomp", "--enable-sandbox")


def _carry(tools: Tools, network: int, owner: int, alive: int) -> subprocess.Popen[bytes]:
    """Start a slirp4netns that forwards the traffic of *network*, and return it once it is ready.

    Raises:
        NoEgressError: It is not ready in time, or it ended.
    """
    with ExitStack() as stack:
        said = stack.enter_context(open(os.memfd_create("rota-slirp4netns"), "r+b"))
        ready, theirs = os.pipe()
        stack.callback(os.close, ready)
        try:
            process = subprocess.Popen(
                (
                    *_confined(tools),
                    *("--configure", "--disable-host-loopback", "--mtu=65520"),
                    *(f"--ready-fd={theirs}", f"--exit-fd={alive}"),
                    *("--netns-type=path", f"--userns-path=/proc/self/fd/{owner}"),
                    *(f"/proc/self/fd/{network}", "tap0"),
                ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                pass_fds=(network, owner, theirs, alive),
                env={},
                start_new_session=True,
            )
        finally:
            os.close(theirs)
        poll = select.poll()  # select takes no descriptor above 1,023.
        poll.register(ready, select.POLLIN)
        if poll.poll(_READY_S * 1_000) and os.read(ready, 1):
            return process
        process.kill()
        process.wait()
        said.seek(0)
        why = "; ".join(said.read(_SAID_BYTES).decode(errors="replace").splitlines())
        raise NoEgressError(
            f"slirp4netns cannot connect the sandbox's network: {why or 'it reported no error'}"
        )
