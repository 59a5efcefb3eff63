"""Paths that no attempt may bind, by their names."""

import pytest

from rota.core.model.work_checks import why_never_bound


@pytest.mark.parametrize(
    "source",
    [
        *("/", "//", "/usr/..", "/./", "/proc", "/proc/1", "//proc", "/usr/../proc/self", "/sys/"),
        *("/sys/fs/cgroup", "/run/docker.sock", "/run/./docker.sock", "/x/podman.sock"),
        *("/run/containerd/containerd.sock/", "/run/crio/crio.sock"),
    ],
)
def test_a_path_to_the_whole_machine_is_never_bound(source: str) -> None:
    assert "is never bound: " in why_never_bound(source)


@pytest.mark.parametrize("source", ["/processes", "/srv/sys", "/system", "/docker.sock.d", "/home"])
def test_a_path_with_a_similar_name_may_be_bound(source: str) -> None:
    assert why_never_bound(source) == ""
