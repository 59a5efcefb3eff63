"""The machine on which figures are measured, and how busy it was."""

import os
import platform
import re
import shutil
import subprocess
import time
from pathlib import Path

import msgspec

import rota
from rota.client.slo.percentiles import percentile

PROBES = 500
PROBE_BYTES = 512
LOOKED_S = 0.5


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """A machine, and the versions of the software on it.

    Attributes:
        filesystem: The type of the file system that everything is written to: on ``tmpfs``, a sync
            costs nothing, and figures mean little.
        sync_ms: The time of an append of 512 bytes and fdatasync, without other load: the median
            and the 99th percentile.
    """

    processor: str
    cores: int
    memory_gib: float
    kernel: str
    python: str
    rota: str
    commit: str
    etcd: str
    filesystem: str
    sync_ms: tuple[float, float]


def look(folder: Path) -> Machine:
    """Return a description of this machine, and of the disk that *folder* is on."""
    memory = re.search(r"MemTotal:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return Machine(
        processor=model[1] if model else platform.machine(),
        cores=os.cpu_count() or 1,
        memory_gib=round(int(memory[1]) / 2**20, 1) if memory else 0.0,
        kernel=platform.release().split("-")[0],
        python=platform.python_version(),
        rota=rota.__version__,
        commit=_said("git", "describe", "--always", "--dirty"),
        etcd=_said("etcd", "--version").partition("\n")[0].removeprefix("etcd Version: "),
        filesystem=_said("stat", "--file-system", "--format=%T", str(folder)),
        sync_ms=_sync_ms(folder),
    )


def busy() -> float:
    """Return the share of the processors that other programs use, measured for half a second.

    The load average of the last minute would mostly be that of the scenario before.
    """
    before = _ticks()
    time.sleep(LOOKED_S)
    used, idle = (after - earlier for after, earlier in zip(_ticks(), before, strict=True))
    return used / max(1, used + idle)


def _ticks() -> tuple[int, int]:
    """Return the ticks in which processors were used (or taken away by the host), and idle."""
    user, nice, system, idle, waiting, *others = map(
        int, Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]
    )
    return user + nice + system + sum(others), idle + waiting


def _said(*argv: str) -> str:
    """Return the output of a program; empty if the program is not installed."""
    if shutil.which(argv[0]) is None:
        return ""
    return subprocess.run(argv, check=False, capture_output=True, text=True).stdout.strip()


def _sync_ms(folder: Path) -> tuple[float, float]:
    taken: list[float] = []
    with (folder / "probe").open("wb", buffering=0) as file:
        for _ in range(PROBES):
            began = time.perf_counter()
            file.write(bytes(PROBE_BYTES))
            os.fdatasync(file.fileno())
            taken.append((time.perf_counter() - began) * 1e3)
    (folder / "probe").unlink()
    ordered = sorted(taken)
    return percentile(ordered, 0.5), percentile(ordered, 0.99)
