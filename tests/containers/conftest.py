"""One container engine with all images, and the cluster of the Compose file."""

import subprocess
from collections.abc import Iterator

import pytest

from containers import images
from containers.project import Project
from support.docker import RECIPE, Dockerd


@pytest.fixture(scope="session")
def dockerd(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[Dockerd]:
    """One container engine, with the image of the current sources."""
    engine = Dockerd(tmp_path_factory.mktemp("docker"))
    try:
        engine.open()
    except (AssertionError, OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"dockerd does not start here, so {RECIPE}: {error}")
    assert pytestconfig.cache is not None
    try:
        images.build(engine, pytestconfig.cache.mkdir("containers"))
        yield engine
    finally:
        engine.close()


@pytest.fixture(scope="module")
def project(dockerd: Dockerd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """The cluster of the Compose file, with three nodes."""
    with Project(dockerd, tmp_path_factory.mktemp("tokens")).running() as project:
        yield project
