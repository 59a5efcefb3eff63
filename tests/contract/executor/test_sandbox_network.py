"""The network of a sandbox: every probe succeeds where the sandbox is off."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from contract.executor.executor_host import Host, kill_leftovers, wait_until
from contract.executor.sandbox_host import DEFAULT, EGRESS, OFF, STRICT, Bench, own_children
from rota.core.model.attempt import Outcome
from rota.core.model.work import Sandbox, Work
from rota.core.timing.instants import Duration

pytestmark = pytest.mark.skipif(
    shutil.which("bwrap") is None, reason="no bubblewrap: apt-get install bubblewrap"
)


NETWORKS = [
    (OFF, True),
    (DEFAULT, True),
    (Sandbox(profile="default", has_network=False), False),
    (STRICT, False),
    (EGRESS, False),
]
every_network = pytest.mark.parametrize(
    ("sandbox", "gets_out"),
    NETWORKS,
    ids=["none", "default", "default without network", "strict", "strict with network"],
)
needs_egress = pytest.mark.skipif(
    os.geteuid() != 0 or None in map(shutil.which, ("slirp4netns", "ip")),
    reason="not root, or missing: apt-get install slirp4netns iproute2",
)
OUTSIDE = "198.51.100.7"
"""Of another machine, as far as a sandbox can see: an address of a network namespace."""

REACH = """
import socket, sys
ways = {
    "tcp": lambda to: socket.create_connection((to, int(sys.argv[2])), 3),
    "unix": lambda to: socket.socket(socket.AF_UNIX).connect("\\0" + to),
}
ways[sys.argv[1]](sys.argv[3])
print("reached")
"""
OVER_THE_DEVICE = """
import socket, sys
kind = getattr(socket, sys.argv[1])
for device in ("lo", "tap0", "eth0"):
    for host in ("127.0.0.1", "127.0.0.53", "10.0.2.2"):
        try:
            with socket.socket(socket.AF_INET, kind) as way:
                way.settimeout(0.3)
                way.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
                way.connect((host, int(sys.argv[2])))
                way.send(b"reached")
        except OSError:
            pass
"""


def reached(bench: Bench, sandbox: Sandbox, *arguments: object) -> bool:
    """Return whether a program in *sandbox* gets there."""
    argv = ("/usr/bin/python3", "-c", REACH, *map(str, arguments))
    ending = bench.ending_of(Work(argv=argv, sandbox=sandbox))
    assert ending.exit_code in (0, 1), ending
    return ending.output == b"reached\n"


@every_network
def test_loopback_of_the_machine_cannot_be_reached(
    bench: Bench, sandbox: Sandbox, gets_out: bool
) -> None:
    skip_without_egress(sandbox)
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert reached(bench, sandbox, "tcp", server.getsockname()[1], "127.0.0.1") == gets_out


@every_network
def test_loopback_of_ip_version_6_cannot_be_reached(
    bench: Bench, sandbox: Sandbox, gets_out: bool
) -> None:
    skip_without_egress(sandbox)
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as server:
        assert reached(bench, sandbox, "tcp", server.getsockname()[1], "::1") == gets_out


@every_network
def test_abstract_sockets_of_the_machine_cannot_be_reached(
    bench: Bench, sandbox: Sandbox, gets_out: bool
) -> None:
    skip_without_egress(sandbox)
    name = f"rota-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0{name}")
        server.listen()

        assert reached(bench, sandbox, "unix", 0, name) == gets_out


@needs_egress
@pytest.mark.parametrize("kind", [socket.SOCK_DGRAM, socket.SOCK_STREAM], ids=["udp", "tcp"])
def test_a_socket_that_is_bound_to_the_device_does_not_reach_loopback_either(
    bench: Bench, kind: socket.SocketKind
) -> None:
    with socket.socket(socket.AF_INET, kind) as server:
        server.bind(("127.0.0.1", 0))
        if kind is socket.SOCK_STREAM:
            server.listen()
        server.setblocking(False)

        argv = ("/usr/bin/python3", "-c", OVER_THE_DEVICE, kind.name, str(server.getsockname()[1]))
        ending = bench.ending_of(Work(argv=argv, sandbox=EGRESS))

        assert ending.outcome is Outcome.SUCCEEDED
        with pytest.raises(BlockingIOError):  # Nothing has come; one was sent each way.
            server.accept() if kind is socket.SOCK_STREAM else server.recv(99)


@needs_egress
def test_strict_with_network_reaches_other_machines(bench: Bench, elsewhere: int) -> None:
    assert reached(bench, EGRESS, "tcp", elsewhere, OUTSIDE)
    assert not reached(bench, STRICT, "tcp", elsewhere, OUTSIDE)


@needs_egress
def test_names_are_resolved_by_the_machine_s_resolver_from_inside(bench: Bench) -> None:
    assert bench.output_of(EGRESS, "cat /etc/resolv.conf") == "nameserver 10.0.2.3\n"


@needs_egress
def test_nothing_is_left_of_a_network_whose_sandbox_has_ended(bench: Bench) -> None:
    async def scenario(host: Host) -> None:
        key = host.launch(Work(argv=("sleep", "60"), sandbox=EGRESS))
        await wait_until(lambda: "slirp4netns" in own_children())
        host.stop(key, grace=Duration(0))
        await host.ending(key)

    bench.run(scenario)

    assert "slirp4netns" not in own_children()


def test_without_slirp4netns_strict_with_network_is_refused(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "bwrap").symlink_to(shutil.which("bwrap") or "")

    ending = bench.ending_of(
        Work(argv=("/bin/true",), sandbox=EGRESS), environ={"PATH": str(tmp_path)}
    )

    assert (ending.outcome, ending.exit_code) == (Outcome.FAILED, -1)
    assert "install slirp4netns" in ending.reason
    assert "set its network to false" in ending.reason


def test_a_profile_that_cannot_take_the_network_away_says_so(bench: Bench) -> None:
    ending = bench.ending_of(Work(argv=("true",), sandbox=replace(OFF, has_network=False)))

    assert ending.unenforced == (
        "the task has access to the network: the profile 'none' cannot prevent that",
    )


def skip_without_egress(sandbox: Sandbox) -> None:
    if sandbox == EGRESS and needs_egress.args[0]:
        pytest.skip(needs_egress.kwargs["reason"])


@pytest.fixture
def elsewhere() -> Iterator[int]:
    """A port of `OUTSIDE` that answers."""
    name, ours = f"rota-out-{os.getpid()}", f"ro{os.getpid()}"

    def ip(*arguments: str) -> None:
        subprocess.run(("ip", *arguments), check=True, capture_output=True)

    ip("netns", "add", name)
    try:
        ip("link", "add", ours, "type", "veth", "peer", "name", "outer", "netns", name)
        ip("addr", "add", "198.51.100.1/24", "dev", ours)
        ip("link", "set", ours, "up")
        ip("-n", name, "addr", "add", f"{OUTSIDE}/24", "dev", "outer")
        ip("-n", name, "link", "set", "outer", "up")
        code = "import socket as s; x = s.create_server(('', 7007)); print('up', flush=True)\n"
        code += "while True: x.accept()"
        server = subprocess.Popen(
            ("ip", "netns", "exec", name, "/usr/bin/python3", "-c", code), stdout=subprocess.PIPE
        )
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == b"up\n"
            yield 7007
            ip("-n", name, "link")  # What a sandbox unmounts, it unmounts for itself alone.
        finally:
            server.kill()
            server.communicate()
    finally:
        subprocess.run(("ip", "link", "delete", ours), check=False, capture_output=True)
        ip("netns", "delete", name)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    yield Bench(tmp_path / "executor")
    kill_leftovers(tmp_path / "executor")
