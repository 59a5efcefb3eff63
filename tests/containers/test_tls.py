"""TLS between the nodes of the Compose files, with certificates that their service makes."""

from collections.abc import Iterator

import pytest

from containers.project import URL, Project, needs_compose, wait_until
from support.docker import Dockerd, needs_docker

pytestmark = [needs_docker, needs_compose, pytest.mark.containers]

METRIC = 'rota_certificate_expiry_seconds{use="peer"}'


@pytest.fixture(scope="module")
def project(dockerd: Dockerd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """The cluster of both Compose files."""
    folder = tmp_path_factory.mktemp("tokens")
    with Project(dockerd, folder, "compose.yaml", "compose.tls.yaml").running() as project:
        yield project


def test_nodes_have_certificates_without_the_key_that_signs(project: Project) -> None:
    project.rota("jobs", "create", "secured", "--", "true")
    project.rota("trigger", "secured", "--wait")

    token = f"Authorization: Bearer {project.token_file.read_text()}"
    assert METRIC in project.inside("curl", "--silent", "--header", token, f"{URL}/metrics")
    listed = project.compose("exec", "-T", "node", "ls", "-A", "/var/lib/rota-authority")
    assert listed == ""
    made = project.compose("exec", "-T", "node", "ls", "/var/lib/rota-certificates").split()
    assert {"ca.crt", "rota-node-1.key", "rota-node-9.crt"} <= set(made)
    assert "ca.key" not in made


def test_a_further_run_renews_the_certificates_of_running_nodes(project: Project) -> None:
    project.compose("run", "--rm", "certificates")

    wait_until(
        lambda: project.compose("logs", "node").count("certificate replaced") >= 3,
        lambda: project.compose("logs", "--tail=20", "node"),
    )
    project.wait_whole(3)


def test_a_further_node_joins_with_its_certificate(project: Project) -> None:
    project.compose("up", "--detach", "--scale", "node=4")

    project.wait_whole(4)
