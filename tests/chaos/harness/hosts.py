"""Programs on the hosts: nodes and members of etcd."""

import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from chaos.harness.disks import FrozenDisk, SmallDisk
from chaos.harness.histories import boottime
from chaos.harness.network import Host, Network
from chaos.harness.shim import Orders
from support.etcd import Etcd
from support.rotad import Rotad, warden_of

Json = Any  # Any: recorded for the judge.

API_PORT = 7400
PEER_PORT = 7401
STOPS_S = 120.0
"""Limit of a graceful stop, also on a machine under full load."""
STARTED_AGAIN_S = 1.0
"""From a node's end to its next start by the supervisor."""
EX_IOERR = 74
"""Exit status of a node that cannot use its data directory."""
LAST_WORDS = 400


class Node(Rotad):
    """A node on a host of its own. All of its lives write to one log.

    Args:
        host: Where it runs; its name is the node's.
        network: What connects it.
        folder: Where its data and its log are.
        flags: Of each life.

    Attributes:
        build: The folder of the package that its next life runs; None: the installed package.
        disk: The file system of its data, if that is a separate one that can be full.
        volume: Likewise, if that is one that can be frozen.
        orders: For its wall clock and its disk, if the shim can be built.
        is_damaged: Whether its data was damaged, and it has not begun with an empty disk since.
        ends: Exits that the harness did not request.
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
        self.build: Path | None = None
        self.disk: SmallDisk | None = None
        self.volume: FrozenDisk | None = None
        self.orders: Orders | None = None
        self.is_damaged = False
        self.ends: list[Json] = []
        self._is_paused = False
        self._is_wanted = False
        self._spawned_at = 0.0

    @property
    def name(self) -> str:
        """Its id."""
        return self.host.name

    @property
    def is_running(self) -> bool:
        """Whether there is a process, paused or not."""
        return self.process is not None and self.process.poll() is None

    def spawn(self) -> None:
        """Start the node without waiting for it; the log of its last life is kept."""
        self._keep_log()
        environment = [*self.orders.environment] if self.orders else []
        if self.build is not None:
            environment.append(f"PYTHONPATH={self.build}")
        self.prefix = (*self.host.prefix, "env", *environment) if environment else self.host.prefix
        super().spawn()
        scheme = "https" if self.ca else "http"
        self.url = f"{scheme}://{self.host.address}:{API_PORT}"
        self._is_wanted = True
        self._spawned_at = time.monotonic()

    def tend(self) -> None:
        """Start the node again if it has ended by itself, as systemd would.

        If its data was damaged and its exit status says so, it gets an empty disk, as an operator
        would do.
        """
        is_over = self._is_wanted and not self.is_running
        if not is_over or time.monotonic() < self._spawned_at + STARTED_AGAIN_S:
            return
        assert self.process is not None
        status = self.process.returncode
        self.note_end(status)
        if self.is_damaged and status == EX_IOERR:
            self.wipe_all()
        self.spawn()

    def note_end(self, status: int | str) -> None:
        """Record for the judge that the node ended, or another event that must not happen."""
        print(f"{time.strftime('%T')} ENDED {self.name} with status {status}", flush=True)
        words = self.log()[-LAST_WORDS:]
        self.ends.append({"at": boottime(), "node": self.name, "status": status, "words": words})

    def _keep_log(self) -> None:
        if self.log_path.exists():
            with self.log_path.with_suffix(".all.log").open("ab") as kept:
                kept.write(self.log_path.read_bytes())

    def kill(self) -> None:
        """End the process as a power failure would."""
        self._is_wanted = False
        super().kill()

    def stop(self, timeout_s: float = STOPS_S) -> int:
        """Stop the node and return its exit status; kill it if it does not stop in time."""
        self._is_wanted = False
        try:
            return super().stop(timeout_s)
        except subprocess.TimeoutExpired:
            self.note_end("does not stop")
            self.kill()
            return -signal.SIGKILL

    def kill_host(self) -> None:
        """End node, warden and attempts at once, so that nothing is left to report it."""
        assert self.process is not None
        self._is_wanted = False
        if not self.network.kill_all(self.host):
            self.kill_all()
        self.process.wait()

    def kill_warden(self) -> None:
        """Kill the warden alone."""
        if warden := warden_of(self.data_dir):
            with suppress(ProcessLookupError):
                os.kill(warden, signal.SIGKILL)

    def pause(self, *, with_warden: bool = False) -> None:
        """Pause the process."""
        self._signal(signal.SIGSTOP, with_warden=with_warden)
        self._is_paused = True

    def resume(self) -> None:
        """Resume all paused processes."""
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

    # -- disk and wall clock -----------------------------------------------------------------------

    def wipe(self) -> None:
        """Lose the disk; only while nothing of it runs."""
        for path in self.data_dir.iterdir():  # It may be where a disk of its own is mounted.
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        self.is_damaged = False

    def wipe_all(self) -> None:
        """End what is left of it, and lose the disk."""
        self.kill_host()
        self.wipe()

    def keep_copy(self) -> None:
        """Keep a copy of the disk; only while nothing of it runs."""
        shutil.rmtree(self._copy, ignore_errors=True)
        _copy(self.data_dir, self._copy)

    def put_back_copy(self) -> None:
        """Set the disk back to the copy; only while nothing of it runs."""
        self.wipe()
        _copy(self._copy, self.data_dir)
        shutil.rmtree(self._copy)

    @property
    def _copy(self) -> Path:
        return self.data_dir.with_name(f"{self.name}.copy")

    def on_small_disk(self) -> None:
        """Have its data on a disk that `leave_room` can fill; only before its first life."""
        self.disk = SmallDisk(self.data_dir)

    def leave_room(self, room_bytes: int | None = None) -> None:
        """Leave so much room on its disk; None: plenty."""
        assert self.disk is not None, f"{self.name} is not on a small disk"
        self.disk.leave_room(room_bytes)

    def on_volume(self) -> None:
        """Have its data on a disk that can be frozen; only before its first life."""
        self.volume = FrozenDisk(self.data_dir)

    def freeze(self) -> None:
        """Freeze its disk until `obey_nothing`."""
        assert self.volume is not None, f"{self.name} has no disk that can be frozen"
        self.volume.freeze()

    def unmount(self) -> None:
        """Unmount its disk; only while nothing of it runs."""
        for disk in (self.disk, self.volume):
            if disk is not None:
                disk.unmount()

    def order(
        self, *, ahead_s: float = 0.0, sync_takes_s: float = 0.0, sync_fails: bool = False
    ) -> None:
        """Spoil its wall clock or its disk; see `Orders.give`."""
        assert self.orders is not None, f"{self.name} has the machine's own wall clock and disk"
        self.orders.give(ahead_s=ahead_s, sync_takes_s=sync_takes_s, sync_fails=sync_fails)

    def obey_nothing(self) -> None:
        """Undo `leave_room`, `freeze` and `order`."""
        if self.volume is not None:
            self.volume.thaw()
        if self.disk is not None:
            self.disk.leave_room(None)
        if self.orders is not None:
            self.orders.give()


def _copy(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-a", f"{source}/.", str(target)], check=True)


def member_of_etcd(host: Host, folder: Path) -> Etcd:
    """Return a member of etcd on a host of its own."""
    member = Etcd(host.name, folder)
    member.address, member.prefix = host.address, host.prefix
    return member
