"""Paths that no attempt may bind, by their names."""

import pytest

from rota.core.model.work import Bind, Work
from rota.core.model.work_checks import (
    STRING_BYTES_MAX,
    problems_of_targets,
    problems_of_work,
    why_never_bound,
)


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


@pytest.mark.parametrize(
    "target",
    [
        *("/", "//", "/./", "/proc", "/proc/1", "/sys/fs", "/dev", "/dev/shm", "/dev/null"),
        *("/run", "/run/rota", "/run/rota/x", "/run/rota-secrets", "/a/../tmp", "/tmp/", "/tmp/."),
        *("/a" * 33, "/tmp/" + "a" * 1_024),
        *("/tmp/.rota-checkpoint", "/tmp//.rota-result/x"),
    ],
)
def test_no_bind_covers_folders_of_the_kernel_or_files_of_rota(target: str) -> None:
    [(number, why)] = problems_of_targets((Bind("/srv", target),), is_sandbox=True)

    assert number == 0
    assert "cannot be the target of a bind: " in why


@pytest.mark.parametrize("target", ["/tmp/x", "/processes", "/run/rotad", "/srv", "/tmp.rota-"])
def test_other_folders_may_be_targets(target: str) -> None:
    assert not [*problems_of_targets((Bind("/srv", target),), is_sandbox=True)]


def test_the_private_folder_is_that_of_sandboxes_alone() -> None:
    assert not [*problems_of_targets((Bind("/srv", "/tmp"),), is_sandbox=False)]


@pytest.mark.parametrize("inner", ["/h/link/x", "/h/x/", "/h"])
def test_no_target_is_in_another_one_whose_source_could_have_links(inner: str) -> None:
    binds = (Bind("/srv", "/h", is_writable=True), Bind("/data", inner))

    [(number, why)] = problems_of_targets(binds, is_sandbox=False)

    assert number == 1
    assert "another bind" in why


LONGEST = STRING_BYTES_MAX - len("V=") - 1


@pytest.mark.parametrize(
    ("work", "pointer"),
    [
        (Work(shell="x" * (STRING_BYTES_MAX - 1)), ""),
        (Work(shell="x" * STRING_BYTES_MAX), "/command"),
        (Work(argv=("true", "\u00e4" * (STRING_BYTES_MAX // 2))), "/command"),
        (Work(shell="true", env=(("V", "x" * LONGEST),)), ""),
        (Work(shell="true", env=(("V", "x" * (LONGEST + 1)),)), "/env"),
        (Work(shell="true", env=(("V", "\u20ac" * (LONGEST // 3 + 1)),)), "/env"),
    ],
)
def test_a_text_that_the_kernel_would_refuse_is_an_error(work: Work, pointer: str) -> None:
    found = [each.pointer for each in problems_of_work(work, "")]

    assert found == ([pointer] if pointer else [])


def test_the_sum_of_the_texts_is_limited() -> None:
    many = Work(argv=("true", *["x" * 100_000] * 20))

    [problem] = problems_of_work(many, "/tasks/0")

    assert problem.pointer == "/tasks/0"
    assert "bytes together" in problem.detail
