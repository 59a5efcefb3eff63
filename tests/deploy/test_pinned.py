"""Pinned dependencies: packages by hashes, images by digests."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from deploy.programs import DEPLOY

ROOT = DEPLOY.parent
FILES = {
    "constraints.txt": ("node", "dev"),
    "deploy/docker/requirements.txt": ("node", "docker"),
}
DIGEST = f"sha256:{'5' * 64}"


def pinned(file: str) -> dict[str, int]:
    """Return how many hashes each package of a file has."""
    text = (ROOT / file).read_text().replace("\\\n", " ")
    found: dict[str, int] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, version, hashes = re.fullmatch(r"([\w.-]+)==(\S+) (.*)", line).groups()  # type: ignore[union-attr]  # or it fails
        assert version
        found[normal(name)] = len(re.findall(r"--hash=sha256:[0-9a-f]{64}\b", hashes))
    return found


def normal(name: str) -> str:
    """Return the name of a package as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("file", [*FILES, "deploy/docker/build.txt"])
def test_every_package_has_hashes(file: str) -> None:
    assert [name for name, hashes in pinned(file).items() if not hashes] == []


@pytest.mark.parametrize(("file", "extras"), FILES.items())
def test_every_requirement_is_pinned(file: str, extras: tuple[str, ...]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(each for extra in extras for each in optional[extra])]

    names = {normal(re.match(r"[\w.-]+", each)[0]) for each in wanted}  # type: ignore[index]  # or it fails
    assert names - pinned(file).keys() == set()


def test_the_files_pin_the_same_versions() -> None:
    lines = [
        set(re.findall(r"^\S+==\S+", (ROOT / file).read_text(), re.MULTILINE))
        for file in ("constraints.txt", "deploy/docker/requirements.txt", "deploy/docker/build.txt")
    ]

    assert lines[1] | lines[2] <= lines[0]


@pytest.mark.parametrize("file", ["Makefile", "deploy/docker/Dockerfile"])
def test_nothing_is_installed_without_hashes(file: str) -> None:
    text = (ROOT / file).read_text()

    installs = re.findall(r"pip\b[^\n]*? (?:install|wheel) [^\n]*", text)
    assert len(installs) > 1
    assert [
        each for each in installs if "--require-hashes" not in each and "--no-deps" not in each
    ] == []


def test_images_are_pinned_by_the_digests_that_the_registry_gives(tmp_path: Path) -> None:
    folder, programs = tmp_path / "docker", tmp_path / "bin"
    shutil.copytree(DEPLOY / "docker", folder)
    programs.mkdir()
    docker = programs / "docker"
    docker.write_text(f"#!/bin/sh\necho {DIGEST}\n")
    docker.chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}

    for _ in range(2):  # What is pinned can be pinned again.
        subprocess.run([folder / "pin-images"], env=environment, check=True, capture_output=True)

    text = "".join(
        (folder / each).read_text()
        for each in ("Dockerfile", "compose.yaml", "compose.etcd-3.yaml")
    )
    assert f"ARG BASE=python:3.11-slim-bookworm@{DIGEST}\n" in text
    assert text.count(f"@{DIGEST}") == 6
    assert re.findall(r"image: \$\{(?!ROTA_IMAGE)\w+:-[^@}]*\}", text) == []
