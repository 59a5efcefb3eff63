"""Images where no registry is: the real one of rota, and one that stands in for all others.

debootstrap makes the one that stands in: Debian with Python, tini, etcd, HAProxy and Prometheus,
under every name that Dockerfile and Compose file ask for. It is kept between two runs, and so are
the wheels.
"""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from support.docker import Dockerd

ROOT = Path(__file__).parents[2]
BASE = "python:3.11-slim-bookworm"
STAND_IN = "stand-in:latest"
ROTA = "rota:under-test"
PACKAGES = (
    "ca-certificates", "etcd-server", "haproxy", "prometheus",
    "python3-minimal", "python3-venv", "tini",
)  # fmt: skip


def build(dockerd: Dockerd, cache: Path) -> None:
    """Make all images; the first time it takes minutes."""
    dockerd.docker("import", str(_system(cache)), STAND_IN, timeout_s=300)
    dockerd.docker("tag", STAND_IN, BASE)
    with _serving(dockerd, _wheels(cache)) as address:
        dockerd.docker(
            "build", "--network", "host", "--tag", ROTA,
            "--build-arg", "PIP_NO_INDEX=1", "--build-arg", f"PIP_FIND_LINKS={address}",
            "--file", str(ROOT / "deploy/docker/Dockerfile"), str(ROOT),
            timeout_s=600,
        )  # fmt: skip


def _system(cache: Path) -> Path:
    """Return an archive of a whole Debian."""
    archive = cache / "system.tar"
    if not archive.exists():
        with TemporaryDirectory(dir=cache) as folder:
            made = Path(folder) / "made.tar"
            root = Path(folder) / "root"
            include = f"--include={','.join(PACKAGES)}"
            _run("debootstrap", "--variant=minbase", include, "bookworm", str(root))
            _run(
                "tar", "--create", "--file", str(made), "--directory", str(root),
                "--exclude", "./var/cache/apt/archives/*.deb", ".",
            )  # fmt: skip
            made.rename(archive)
    return archive


def _wheels(cache: Path) -> Path:
    """Return a folder with what the Dockerfile installs with pip."""
    folder = cache / "wheels"
    files = [ROOT / "deploy/docker" / name for name in ("build.txt", "requirements.txt")]
    _run(
        sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
        "--only-binary", ":all:", "--require-hashes", "--dest", str(folder),
        *(word for file in files for word in ("--requirement", str(file))),
    )  # fmt: skip
    return folder


@contextmanager
def _serving(dockerd: Dockerd, folder: Path) -> Generator[str]:
    """Offer the files of *folder* in the engine's network, and yield the address."""
    process = subprocess.Popen(
        [
            "nsenter", f"--net=/run/netns/{dockerd.name}", sys.executable, "-u",
            "-m", "http.server", "--bind", "127.0.0.1", "--directory", str(folder), "0",
        ],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        words = process.stdout.readline().split()  # Serving HTTP on 127.0.0.1 port 41234 (…
        yield f"http://127.0.0.1:{words[words.index('port') + 1]}/"
    finally:
        process.kill()
        process.communicate()


def _run(*argv: str) -> None:
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=600, check=False)
    assert ran.returncode == 0, f"{argv}: {ran.stdout[-2000:]}{ran.stderr[-2000:]}"
