"""Restart of a node while one of three members of etcd is down."""

from collections.abc import Iterator

import pytest

from containers.project import Project, needs_compose
from support.docker import Dockerd, needs_docker

pytestmark = [needs_docker, needs_compose, pytest.mark.containers]


@pytest.fixture(scope="module")
def project(dockerd: Dockerd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """The cluster of both Compose files."""
    folder = tmp_path_factory.mktemp("tokens")
    with Project(dockerd, folder, "compose.yaml", "compose.etcd-3.yaml").running() as project:
        yield project


def test_a_node_restarts_while_a_member_of_etcd_is_down(project: Project) -> None:
    project.rota("jobs", "create", "asked", "--", "true")

    with project.asking("asked") as result:
        project.dockerd.docker("kill", project.container(1, "etcd"))
        project.dockerd.docker("restart", project.container(2))
        project.wait_whole(3)

    assert result["asked"] > 10
    assert (result["failures"], result["lost"]) == ([], [])
