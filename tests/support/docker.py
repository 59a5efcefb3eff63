"""A real container engine for tests, in a network of its own: start, pause, kill and end.

All its files and processes are in one folder, one network namespace and one control group, so that
they can be removed and ended, also after a test that failed.
"""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from support.stopping import stop

PROGRAMS = ("dockerd", "docker", "busybox", "ip", "nsenter", "iptables")
MISSING = [name for name in PROGRAMS if shutil.which(name) is None]
RECIPE = (
    "nothing about containers is tested here; as root on Debian: "
    "apt-get install docker.io busybox-static iproute2 iptables util-linux"
)
needs_docker = pytest.mark.skipif(
    bool(MISSING) or os.geteuid() != 0,
    reason=f"{f'{MISSING} missing' if MISSING else 'not root'}: {RECIPE}",
)
Json = Any  # Any: JSON answers of docker; each test reads the fields that it checks.


class Dockerd:
    """One dockerd with the image ``busybox:latest``, and no registry within reach.

    Containers outlive the engine (``--live-restore``), as recommended for production.

    Args:
        folder: Folder of all its files; with a short path, as sockets are in it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = f"rota-test-{os.getpid()}-{folder.name}"
        self.host = f"unix://{folder}/docker.sock"
        self.process: subprocess.Popen[bytes] | None = None

    def open(self) -> None:
        """Start the engine, with an image; leaves nothing behind if that fails."""
        try:
            self._run("ip", "netns", "add", self.name)
            self._run("ip", "-netns", self.name, "link", "set", "lo", "up")
            self.start()
            self._import_busybox()
        except BaseException:
            self.close()
            raise

    def start(self) -> None:
        """Start the engine, and wait until it answers."""
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [  # Not `ip netns exec`, which hides the control groups.
                    "nsenter", f"--net=/run/netns/{self.name}", "dockerd",
                    "--host", self.host, "--data-root", str(self.folder / "data"),
                    "--exec-root", str(self.folder / "exec"),
                    "--pidfile", str(self.folder / "pid"),
                    "--cgroup-parent", f"/{self.name}", "--live-restore",
                    "--dns", "127.0.0.1",  # No server: lookups of other names fail at once.
                ],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        wait_until(self._is_ready, lambda: f"dockerd does not get ready: {self._last_words()}")

    def kill(self) -> None:
        """End the engine as a crash would; its containers keep running."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        # Its containerd is gone too. The pids in these files may belong to other live processes by
        # the next start, which would then be refused.
        for file in ("pid", "exec/containerd/containerd.pid"):
            (self.folder / file).unlink()

    def pause(self) -> None:
        """Stop the engine's process, with all its connections open."""
        assert self.process is not None
        stop(self.process.pid)

    def wake(self) -> None:
        """Let the engine's process continue."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    @contextmanager
    def paused(self) -> Generator[None]:
        """Pause the engine during the block."""
        self.pause()
        try:
            yield
        finally:
            self.wake()

    def docker(self, *arguments: str, timeout_s: float = 60) -> str:
        """Return the output of the docker command."""
        return self._run("docker", "--host", self.host, *arguments, timeout_s=timeout_s)

    def build(self, name: str, dockerfile: str) -> None:
        """Build an image."""
        (self.folder / "Dockerfile").write_text(dockerfile)
        self._run(
            "env", "DOCKER_BUILDKIT=0",
            "docker", "--host", self.host, "build", "--tag", name,
            "--file", str(self.folder / "Dockerfile"), str(self.folder / "root"),
        )  # fmt: skip

    def containers(self, *filters: str) -> list[str]:
        """Return the ids of all containers that match the *filters* of ``docker ps``."""
        options = [option for each in filters for option in ("--filter", each)]
        return self.docker("ps", "--all", "--quiet", "--no-trunc", *options).split()

    def inspect(self, container_id: str) -> Json:
        """Return the engine's description of a container."""
        [found] = json.loads(self.docker("inspect", container_id))
        return found

    def close(self) -> None:
        """End the engine and all its processes, and remove its files."""
        if self.process is not None:
            if self.process.poll() is None:
                with suppress(subprocess.SubprocessError):
                    if left := self.containers():
                        self.docker("rm", "--force", *left)
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=20)
            self.process.kill()
            self.process.wait()
        for pid in self._left():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not self._left(), lambda: f"{self._left()} do not end")
        for line in reversed(Path("/proc/mounts").read_text().splitlines()):
            if line.split()[1].startswith(str(self.folder)):
                self._run("umount", "--lazy", line.split()[1])
        subprocess.run(["ip", "netns", "delete", self.name], check=False, capture_output=True)
        for group in Path("/sys/fs/cgroup").glob(f"**/{self.name}"):
            for inner in sorted(group.rglob("*/"), reverse=True):  # Of containers without a shim.
                inner.rmdir()
            group.rmdir()
        shutil.rmtree(self.folder / "data", ignore_errors=True)
        shutil.rmtree(self.folder / "exec", ignore_errors=True)

    def _left(self) -> list[int]:
        """Return the processes with the folder in their arguments or the name in their cgroups."""
        found: list[int] = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                arguments = (process / "cmdline").read_bytes()
                groups = (process / "cgroup").read_text()
                if f"{self.folder}/".encode() in arguments or f"/{self.name}/" in groups:
                    found.append(int(process.name))
        return found

    def _is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"dockerd has ended: {self._last_words()}"
        with suppress(subprocess.CalledProcessError):
            return bool(self.docker("version", "--format", "{{.Server.Version}}"))
        return False

    def _last_words(self) -> str:
        return (self.folder / "log").read_text()[-2000:]

    def _import_busybox(self) -> None:
        """Make the image from this machine's busybox, which is one static program."""
        root = self.folder / "root"
        (root / "bin").mkdir(parents=True)
        (root / "etc").mkdir()
        (root / "tmp").mkdir(mode=0o1777)
        (root / "etc" / "passwd").write_text("root:x:0:0::/:/bin/sh\nsomeone:x:1234:1234::/:\n")
        shutil.copy(shutil.which("busybox") or "", root / "bin" / "busybox")
        for name in self._run("busybox", "--list").split():
            with suppress(FileExistsError):
                (root / "bin" / name).symlink_to("busybox")
        archive = self.folder / "root.tar"
        self._run("tar", "--create", "--file", str(archive), "--directory", str(root), ".")
        self.docker("import", "--change", 'CMD ["echo", "by itself"]', str(archive), "busybox")
        shutil.rmtree(root)
        root.mkdir()

    def _run(self, *argv: str, timeout_s: float = 60) -> str:
        return subprocess.run(
            argv, check=True, capture_output=True, text=True, timeout=timeout_s
        ).stdout.strip()


def wait_until(is_so: Callable[[], bool], otherwise: Callable[[], str]) -> None:
    """Wait until *is_so*: an engine sends no notice when it is ready."""
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline, otherwise()
        time.sleep(0.05)
