"""What no attempt is shown, as far as its name tells."""

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
def test_what_shows_all_of_the_machine_is_never_bound(source: str) -> None:
    assert "is never bound: " in why_never_bound(source)


@pytest.mark.parametrize("source", ["/processes", "/srv/sys", "/system", "/docker.sock.d", "/home"])
def test_what_is_only_named_alike_may_be_bound(source: str) -> None:
    assert why_never_bound(source) == ""
