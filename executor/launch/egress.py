"""Network of a sandbox that reaches out of this machine, and not its loopback.

The sandbox has a network namespace of its own, so neither the machine's loopback nor its abstract
sockets are there. slirp4netns(1), outside, carries TCP and UDP from it as an ordinary program would
send them. Its ``--disable-host-loopback`` closes the address that stands for the machine, and not
this way: a program may bind a socket to the device (SO_BINDTODEVICE) and send to 127.0.0.1 over
it, and slirp4netns then sends that to the machine's loopback (seen with 1.2.0: datagrams arrived,
connections were opened). A ``prohibit`` route in the namespace closes it, and nothing in the
sandbox has the capability to remove one.

slirp4netns ends with the sandbox: bubblewrap keeps a pipe open as long as that lives.
"""

import fcntl
import os
import select
import shutil
import subprocess
from contextlib import ExitStack
from typing import NamedTuple

RESOLVER = b"nameserver 10.0.2.3\n"
"""slirp4netns answers there what the machine's resolver answers."""

_NS_GET_USERNS = 0xB701  # In linux/nsfs.h.
_READY_S = 10.0  # It takes some milliseconds; the machine may be busy.
_ROUTE_S = 10.0
_END_S = 5.0
_SAID_BYTES = 400
_SYSTEM_PATH = "/usr/sbin:/sbin"  # Where `ip` is, and not every PATH leads.
_PACKAGES = {
    "slirp4netns": "slirp4netns",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "ip": "iproute2",
}


class NoEgressError(Exception):
    """A sandbox cannot be given this network; the message is for the owner of the node."""


class Tools(NamedTuple):
    """Paths of what makes the network."""

    slirp4netns: str
    nsenter: str
    unshare: str
    ip: str


def find_tools(search_path: str) -> Tools:
    """Return what is found in *search_path*, a PATH.

    Raises:
        NoEgressError: Something is missing.
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
    """The networks of sandboxes on this machine; for one thread.

    Args:
        search_path: The node's PATH.
    """

    def __init__(self, search_path: str) -> None:
        self._search_path = search_path
        self._running: list[subprocess.Popen[bytes]] = []

    def prove(self) -> None:
        """Return if networks can be made here, as far as that can be known before.

        Raises:
            NoEgressError: They cannot.
        """
        find_tools(self._search_path)

    def connect(self, pid: int, alive: int) -> None:
        """Connect the network namespace of *pid*, in which no program runs yet.

        Args:
            pid: A process in it.
            alive: A descriptor that hangs up when the namespace is not used any more.

        Raises:
            NoEgressError: It cannot be connected.
        """
        tools = find_tools(self._search_path)
        self._running = [each for each in self._running if each.poll() is None]
        with ExitStack() as stack:
            network, owner = _namespaces_of(pid, stack)
            _close_loopback(tools, network, owner)
            self._running.append(_carry(tools, network, owner, alive))

    def close(self) -> None:
        """Wait for what ran for sandboxes, all of which have ended."""
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
        # Not that of the process: bubblewrap is in another one by then.
        owner = fcntl.ioctl(network, _NS_GET_USERNS)
        stack.callback(os.close, owner)
    except OSError as error:
        raise NoEgressError(f"its network namespace cannot be opened: {error.strerror}") from error
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
        raise NoEgressError(f"its way to the machine's loopback cannot be closed: {why}")


def _confined(tools: Tools) -> tuple[str, ...]:
    """Return how slirp4netns begins, which reads what hostile programs send."""
    # Its own sandbox needs a group 0 in the user namespace, which only root can map.
    if os.geteuid() != 0:
        return (tools.slirp4netns, "--enable-seccomp")
    # That sandbox unmounts what it does not need, also below shared mounts: the machine's own
    # /run/netns was gone with it (seen with 1.2.0). Here nothing of it reaches the machine.
    alone = (tools.unshare, "--mount", "--propagation", "private")
    return (*alone, tools.slirp4netns, "--enable-seccomp", "--enable-sandbox")


def _carry(tools: Tools, network: int, owner: int, alive: int) -> subprocess.Popen[bytes]:
    """Return the slirp4netns that has begun to carry what is sent in *network*."""
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
        raise NoEgressError(f"slirp4netns does not connect its network: {why or 'it is silent'}")
