"""The Compose file on a real container engine, reached through HAProxy."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from containers.images import ROOT, ROTA, STAND_IN
from support.docker import Dockerd
from support.rota_program import PROGRAM

Json = Any  # Any: JSON that programs print; each test reads the fields that it checks.

FOLDER = ROOT / "deploy/docker"
URL = "http://127.0.0.1:7400"
PROGRAMS = ("docker-compose", "debootstrap")
MISSING = [name for name in PROGRAMS if shutil.which(name) is None]
needs_compose = pytest.mark.skipif(
    bool(MISSING),
    reason=f"{MISSING} missing, so the Compose file is not tested; as root on Debian: "
    f"apt-get install {' '.join(PROGRAMS)}",
)


class Project:
    """The services of the Compose files, run by *dockerd*.

    Args:
        dockerd: With the images of `containers.images`.
        folder: For the files of tokens.
        files: The Compose files.
    """

    def __init__(self, dockerd: Dockerd, folder: Path, *files: str) -> None:
        self.dockerd = dockerd
        self._folder = folder
        self._files = [f"--file={FOLDER / name}" for name in files or ("compose.yaml",)]

    @contextmanager
    def running(self) -> Generator["Project"]:
        """Start three nodes and the services that they need; remove all of them at the end."""
        self.compose("up", "--detach")
        try:
            self.token_file.write_text(self.compose("exec", "-T", "node", "rota", "auth", "token"))
            self.wait_whole(3)
            yield self
        finally:
            self.compose("down", "--volumes", "--timeout", "1")

    @property
    def token_file(self) -> Path:
        """The file with the token of the first key."""
        return self._folder / "first.token"

    @property
    def prometheus_token_file(self) -> Path:
        """The file with the token of Prometheus, which has none before a test creates it."""
        return self._folder / "prometheus.token"

    def compose(self, *arguments: str) -> str:
        """Run docker-compose, and return what it prints."""
        images = ("ETCD_IMAGE", "HAPROXY_IMAGE", "PROMETHEUS_IMAGE", "GRAFANA_IMAGE")
        return run(
            "docker-compose", "--project-directory", str(FOLDER), *self._files, *arguments,
            DOCKER_HOST=self.dockerd.host, ROTA_IMAGE=ROTA,
            PROMETHEUS_TOKEN=str(self.prometheus_token_file), **dict.fromkeys(images, STAND_IN),
        )  # fmt: skip

    def rota(self, *arguments: str) -> Json:
        """Run ``rota`` against HAProxy, and return the document that it prints, or its text."""
        printed = self.inside(*PROGRAM, *arguments)
        return json.loads(printed) if "json" in arguments else printed

    def inside(self, *argv: str) -> str:
        """Run a program in the engine's network, and return what it prints."""
        return run(
            *self._entering, *argv, ROTA_URL=URL, ROTA_TOKEN_FILE=str(self.token_file),
            PYTHONPATH=str(ROOT / "src"),
        )  # fmt: skip

    @property
    def _entering(self) -> tuple[str, ...]:
        return ("nsenter", f"--net=/run/netns/{self.dockerd.name}")

    @contextmanager
    def asking(self, job: str) -> Generator[Json]:
        """Trigger *job* continuously during the block; the yielded document gets the results."""
        result: Json = {}
        program = Path(__file__).with_name("asking.py")
        with subprocess.Popen(
            [*self._entering, sys.executable, "-P", str(program), URL, job],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT / "src"),
                "ROTA_TOKEN_FILE": str(self.token_file),
            },
        ) as process:  # fmt: skip
            try:
                yield result
                printed, _ = process.communicate(timeout=100)
            finally:
                process.kill()
        result |= json.loads(printed)

    def members(self) -> dict[str, Json]:
        """Return the cluster's members by node id."""
        return {each["nodeId"]: each for each in self.rota("cluster", "members", "-o", "json")}

    def wait_whole(self, nodes: int) -> None:
        """Wait until *nodes* nodes are active and every shard is where it belongs."""

        def is_whole() -> bool:
            try:
                self.rota("cluster", "status")
                active = [each for each in self.members().values() if each["state"] == "active"]
            except AssertionError:
                return False
            return len(active) == nodes

        wait_until(is_whole, lambda: f"{self.members()}\n{self.compose('logs', '--tail=20')}")

    def container(self, number: int, service: str = "node") -> str:
        """Return the name of a container; the separator depends on the version of Compose."""
        sign = "_" if self.compose("version", "--short").startswith("1.") else "-"
        return sign.join(("rota", service, str(number)))


def wait_until(is_so: Callable[[], bool], otherwise: Callable[[], str]) -> None:
    """Wait for a cluster of containers, on a machine that may be busy."""
    deadline = time.monotonic() + 90
    while not is_so():
        assert time.monotonic() < deadline, otherwise()
        time.sleep(0.2)


def run(*argv: str, **environment: str) -> str:
    """Return what a program prints; it has to succeed."""
    ran = subprocess.run(
        argv, capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, **environment},
    )  # fmt: skip
    assert ran.returncode == 0, f"{argv} exited with {ran.returncode}: {ran.stdout}{ran.stderr}"
    return ran.stdout.strip()
