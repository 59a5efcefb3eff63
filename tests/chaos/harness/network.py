"""Hosts with addresses of their own, and the network between them.

Each host is a network namespace with one cable to a common switch. Cutting a host off is a rule of
its own packet filter that drops what comes from another: no process learns of it, no connection is
closed, and what is under way is lost, as when a cable is pulled.

All of it is in namespaces of the harness's own (see `enclosed`), so the machine's network is left
alone, and the kernel removes hosts, cables, rules and all processes with the harness, however it
ends.

Without root, or where the kernel has no namespaces, hosts are addresses of the loopback, on which
all faults but partitions are possible.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from chaos.harness.cables import Delay, SlowCable, run

ENCLOSED = "CHAOS_IS_ENCLOSED"
SWITCH = "switch"
RESET = ("REJECT", "--reject-with", "tcp-reset")
_ENCLOSE = (
    # unshare ignores SIGTERM, so it is killed when the harness ends, and its processes with it.
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--net", "--pid", "--mount-proc", "--fork", "--kill-child"),
)
_PROGRAMS = ("setpriv", "unshare", "nsenter", "ip", "iptables")
# The first process of a PID namespace is the parent of all orphans in it; a shell reaps them.
_FIRST_PROCESS = ("sh", "-c", '"$@"; exit $?', "sh")


@dataclass(frozen=True)
class Host:
    """A machine, as far as its network is concerned.

    Attributes:
        name: Of the host.
        address: Where others reach it.
        prefix: What a program is started with, to run there.
    """

    name: str
    address: str
    prefix: tuple[str, ...] = ()


class Network(Protocol):
    """Where hosts are.

    Attributes:
        can_cut: Whether partitions are possible.
        address: Where hosts reach the harness.
    """

    can_cut: bool
    address: str

    def add(self, name: str) -> Host:
        """Make a host."""
        ...

    def cut(self, source: Host, target: Host, *, refuse: bool = False) -> None:
        """Drop all packets from *source* to *target*, until `join` or `mend`.

        Packets are dropped silently; or refused, which ends connections.
        """
        ...

    def join(self, source: Host, target: Host) -> None:
        """Undo one `cut`, if there was one."""
        ...

    def delay(self, host: Host, out: Delay, back: Delay) -> None:
        """Delay each packet from and to a host by a time in these ranges, until `mend`."""
        ...

    def lose(self, target: Host, share: float) -> None:
        """Lose a *share*, 0 to 1, of what comes to *target*, by chance, until `mend`."""
        ...

    def mend(self) -> None:
        """Let everything pass."""
        ...

    def kill_all(self, host: Host) -> bool:
        """Kill every process of *host* at once; return False if they cannot be identified."""
        ...


def enclosed() -> bool:
    """Return True if this process has namespaces of its own; print why, if there can be none.

    Where namespaces are available and this process is not in them yet, another process is run in
    them, and this one exits with its status.
    """
    if ENCLOSED in os.environ:
        return True
    if why := _lacking():
        print(f"NO PARTITIONS ({why}): hosts are addresses of the loopback", flush=True)
        return False
    argv = [*_ENCLOSE, *_FIRST_PROCESS, sys.executable, "-P", *sys.orig_argv[2:]]
    try:
        sys.exit(subprocess.run(argv, env={**os.environ, ENCLOSED: "1"}).returncode)
    except KeyboardInterrupt:
        sys.exit(130)


def _lacking() -> str:
    """Return why hosts cannot be namespaces here; empty if they can."""
    if missing := [name for name in _PROGRAMS if shutil.which(name) is None]:
        return f"not installed: {', '.join(missing)}"
    trial = subprocess.run([*_ENCLOSE, "ip", "link", "add", "type", "veth"], capture_output=True)
    return trial.stderr.decode().strip() if trial.returncode else ""


class Namespaces:
    """Hosts that are network namespaces, on a switch in this process's own namespace."""

    can_cut = True
    address = "10.77.0.254"

    def __init__(self) -> None:
        self._keepers: dict[str, subprocess.Popen[bytes]] = {}
        self._cuts: list[tuple[Host, Host]] = []
        self._slow: list[SlowCable] = []
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", SWITCH, "type", "bridge")
        run("ip", "addr", "add", f"{self.address}/24", "dev", SWITCH)
        run("ip", "link", "set", SWITCH, "up")

    def add(self, name: str) -> Host:
        """Make a namespace that lives as long as the process that keeps it, and plug it in."""
        number = len(self._keepers) + 1
        keeper = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        self._keepers[name] = keeper
        ours = os.readlink("/proc/self/ns/net")
        while os.readlink(f"/proc/{keeper.pid}/ns/net") == ours:
            time.sleep(0.002)
        host = Host(
            name, f"10.77.0.{number}", ("nsenter", f"--net=/proc/{keeper.pid}/ns/net", "--")
        )
        cable = f"to-{name}"
        run(
            *("ip", "link", "add", cable, "type", "veth"),
            *("peer", "name", "eth0", "netns", str(keeper.pid)),
        )
        run("ip", "link", "set", cable, "master", SWITCH, "up")
        run(*host.prefix, "ip", "link", "set", "lo", "up")
        run(*host.prefix, "ip", "addr", "add", f"{host.address}/24", "dev", "eth0")
        run(*host.prefix, "ip", "link", "set", "eth0", "up")
        return host

    def cut(self, source: Host, target: Host, *, refuse: bool = False) -> None:
        """Drop what comes from *source*, at *target*, or answer with a reset."""
        if refuse:
            self._filter(target, "-A", "--source", source.address, "--protocol", "tcp", to=RESET)
        else:
            self._filter(target, "-A", "--source", source.address)
            self._cuts.append((source, target))

    def join(self, source: Host, target: Host) -> None:
        """Take the rule away."""
        if (source, target) in self._cuts:
            self._cuts.remove((source, target))
            self._filter(target, "-D", "--source", source.address)

    def delay(self, host: Host, out: Delay, back: Delay) -> None:
        """Have a program carry each frame between the host's cable and the switch."""
        self._slow.append(SlowCable(f"to-{host.name}", SWITCH, out, back))

    def lose(self, target: Host, share: float) -> None:
        """Drop packets by chance; what runs on the host itself loses none."""
        chance = ("--match", "statistic", "--mode", "random", "--probability", f"{share:.3f}")
        self._filter(target, "-A", "--in-interface", "eth0", *chance)

    def mend(self) -> None:
        """Take all rules and programs away."""
        while self._slow:
            self._slow.pop().end()
        self._cuts.clear()
        for keeper in self._keepers.values():
            run("nsenter", f"--net=/proc/{keeper.pid}/ns/net", "--", "iptables", "-w", "-F")

    def kill_all(self, host: Host) -> bool:
        """Kill what is in the namespace, but for its keeper, until nothing is left."""
        while pids := self._processes(host):
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.002)
        return True

    def _processes(self, host: Host) -> list[int]:
        keeper = self._keepers[host.name].pid
        namespace = os.readlink(f"/proc/{keeper}/ns/net")
        found: list[int] = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and int(entry.name) != keeper:
                with suppress(OSError):  # It ended, or is a zombie, which has no namespace.
                    if os.readlink(entry / "ns" / "net") == namespace:
                        found.append(int(entry.name))
        return found

    def _filter(self, host: Host, what: str, *match: str, to: Sequence[str] = ("DROP",)) -> None:
        run(*host.prefix, "iptables", "-w", what, "INPUT", *match, "-j", *to)


class Uncuttable(Exception):
    """Hosts on the loopback cannot be kept from each other; ask `can_cut` first."""


class Loopback:
    """Hosts that are addresses of the loopback."""

    can_cut = False
    address = "127.0.0.1"

    def __init__(self) -> None:
        self._count = 0

    def add(self, name: str) -> Host:
        """Take the next address."""
        self._count += 1
        return Host(name, f"127.0.77.{self._count}")

    def cut(self, source: Host, target: Host, *, refuse: bool = False) -> None:
        """Refuse."""
        del refuse
        raise Uncuttable(f"{source.name} and {target.name} are on the loopback")

    def join(self, source: Host, target: Host) -> None:
        """Do nothing: nothing is ever cut."""

    def delay(self, host: Host, out: Delay, back: Delay) -> None:
        """Refuse."""
        raise Uncuttable(f"{host.name} is on the loopback: nothing is late by {out}, {back} s")

    def lose(self, target: Host, share: float) -> None:
        """Refuse."""
        raise Uncuttable(f"{target.name} is on the loopback, which loses nothing, not {share:.0%}")

    def mend(self) -> None:
        """Do nothing: nothing is ever cut."""

    def kill_all(self, host: Host) -> bool:
        """Not know: all processes share one namespace."""
        del host
        return False
