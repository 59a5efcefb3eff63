"""What runs on the hosts: nodes, and members of etcd."""

import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path

from chaos.harness.network import Host, Network
from etcd import Etcd
from rotad import Rotad, warden_of

API_PORT = 7400
PEER_PORT = 7401
GIVES_UP_S = 60.0


class Node(Rotad):
    """A node on a host of its own. All of its lives write to one log.

    Args:
        host: Where it runs; its name is the node's.
        network: What connects it.
        folder: Where its data and its log are.
        flags: Of each life.
    """

    def __init__(self, host: Host, network: Network, folder: Path, *flags: str) -> None:
        self.host = host
        self.network = network
        listen, peer_listen = (f"{host.address}:{port}" for port in (API_PORT, PEER_PORT))
        super().__init__(
            folder / host.name,
            *("--listen", listen, "--peer-listen", peer_listen, "--insecure"),
            *("--node-id", host.name, *flags),
        )
        self.prefix = host.prefix
        self._is_paused = False

    @property
    def name(self) -> str:
        """Its id."""
        return self.host.name

    @property
    def is_running(self) -> bool:
        """Whether there is a process, be it paused."""
        return self.process is not None and self.process.poll() is None

    def spawn(self) -> None:
        """Start it, and do not wait; what its last life logged is kept."""
        self._keep_log()
        super().spawn()
        self.url = f"http://{self.host.address}:{API_PORT}"

    def _keep_log(self) -> None:
        if self.log_path.exists():
            with self.log_path.with_suffix(".all.log").open("ab") as kept:
                kept.write(self.log_path.read_bytes())

    def kill_host(self) -> None:
        """End node, warden and attempts at once, with nothing that could tell anybody."""
        assert self.process is not None
        if not self.network.kill_all(self.host):
            self.kill_all()
        self.process.wait()

    def kill_warden(self) -> None:
        """Kill the warden alone."""
        if warden := warden_of(self.data_dir):
            with suppress(ProcessLookupError):
                os.kill(warden, signal.SIGKILL)

    def pause(self, *, with_warden: bool = False) -> None:
        """Let the process stand still."""
        self._signal(signal.SIGSTOP, with_warden=with_warden)
        self._is_paused = True

    def resume(self) -> None:
        """Let everything go on that stands still."""
        if self._is_paused:
            self._signal(signal.SIGCONT, with_warden=True)
            self._is_paused = False

    def _signal(self, which: signal.Signals, *, with_warden: bool) -> None:
        if self.is_running:
            assert self.process is not None
            self.process.send_signal(which)
        if with_warden and (warden := warden_of(self.data_dir)):
            with suppress(ProcessLookupError):
                os.kill(warden, which)

    def end(self) -> None:
        """Stop it in good order, or not, if it does not within a minute."""
        self.resume()
        if self.is_running:
            try:
                self.stop(GIVES_UP_S)
            except Exception:
                self.kill()
                raise

    def wipe(self) -> None:
        """Lose the disk; only while nothing of it runs."""
        shutil.rmtree(self.data_dir)


def member_of_etcd(host: Host, folder: Path) -> Etcd:
    """Return a member of etcd on a host of its own."""
    member = Etcd(host.name, folder)
    member.address, member.prefix = host.address, host.prefix
    return member
