"""The policy of a namespace: which tasks it allows."""

from typing import Any

import msgspec
import pytest

from rota.core.model.work import Call, Image, Work
from rota.node.namespaces.policy import OPEN, Policy, policy_in
from rota.wire.bodies.job_bodies import job_spec
from rota.wire.documents import JobBody

Json = Any  # Any: fields of a job.

COMMAND = Work(executor="process", shell="true")
PYTHON = Work(executor="python", call=Call(function="shop:main"))
CONTAINER = Work(executor="container", image=Image(name="registry.example.org/etl:1"))


def work(**fields: Json) -> Work:
    """Return the work of a job with a command and *fields*."""
    body = {"name": "job", **({} if "container" in fields else {"command": "true"}), **fields}
    return job_spec(msgspec.convert(body, JobBody)).tasks[0].work


def places(policy: Policy, checked: Work) -> list[str]:
    """Return the pointers of the problems of a task."""
    return [each.pointer for each in policy.problems_of(checked)]


@pytest.mark.parametrize("checked", [COMMAND, PYTHON, CONTAINER])
def test_what_a_policy_does_not_name_is_allowed(checked: Work) -> None:
    assert places(OPEN, checked) == []
    assert places(policy_in({}), checked) == []
    assert places(policy_in({"policy": {}}), checked) == []


@pytest.mark.parametrize(
    ("checked", "place"), [(COMMAND, "/command"), (PYTHON, "/python"), (CONTAINER, "")]
)
def test_only_named_executors_are_allowed(checked: Work, place: str) -> None:
    policy = policy_in({"policy": {"executors": ["container"]}})

    assert places(policy, checked) == ([place] if place else [])


@pytest.mark.parametrize(
    ("required", "profile", "is_allowed"),
    [
        ("none", "none", True),
        ("default", "none", False),
        ("default", "default", True),
        ("default", "strict", True),
        ("strict", "default", False),
        ("strict", "strict", True),
    ],
)
def test_a_command_has_at_least_the_sandbox_of_the_policy(
    required: str, profile: str, is_allowed: bool
) -> None:
    policy = policy_in({"policy": {"sandbox": required}})

    assert places(policy, work(sandbox=profile)) == ([] if is_allowed else ["/sandbox"])


def test_a_required_sandbox_allows_containers_and_no_functions() -> None:
    policy = policy_in({"policy": {"sandbox": "default"}})

    assert places(policy, CONTAINER) == []
    assert places(policy, PYTHON) == ["/python"]


@pytest.mark.parametrize(
    ("network", "sandbox", "is_allowed"),
    [
        ("any", "none", True),
        ("isolated", "none", False),
        ("isolated", "default", False),
        ("isolated", {"profile": "default", "network": False}, True),
        ("isolated", {"profile": "strict", "network": True}, True),
        ("none", {"profile": "strict", "network": True}, False),
        ("none", {"profile": "default", "network": False}, True),
        ("none", "strict", True),
    ],
)
def test_a_command_has_no_wider_network_than_the_policy(
    network: str, sandbox: Json, is_allowed: bool
) -> None:
    policy = policy_in({"policy": {"network": network}})

    assert places(policy, work(sandbox=sandbox)) == ([] if is_allowed else ["/sandbox/network"])


@pytest.mark.parametrize(
    ("network", "of_container", "is_allowed"),
    [
        ("any", "host", True),
        ("isolated", "host", False),
        ("isolated", "bridge", True),
        ("isolated", "", True),
        ("none", "bridge", False),
        ("none", "none", True),
    ],
)
def test_a_container_has_no_wider_network_than_the_policy(
    network: str, of_container: str, is_allowed: bool
) -> None:
    policy = policy_in({"policy": {"network": network}})
    checked = work(container={"image": "etl", "network": of_container})

    assert places(policy, checked) == ([] if is_allowed else ["/container/network"])


@pytest.mark.parametrize(
    ("bind", "is_allowed"),
    [
        ("/srv/a:/a", True),
        ("/srv/a/b:/a:rw", True),
        ("/srv/ab:/a", False),
        ("/srv:/a", False),
        ("/srv/a/../b:/a", False),
        ("/data:/data", True),
        ("/data/x:/data:rw", False),
        ("/etc:/etc", False),
    ],
)
def test_binds_lie_in_the_folders_of_the_policy(bind: str, is_allowed: bool) -> None:
    policy = policy_in({"policy": {"binds": ["/srv/a:rw", "/data"]}})
    of_sandbox = work(sandbox={"profile": "strict", "binds": [bind]})
    of_container = work(container={"image": "etl", "binds": [bind]})

    assert places(policy, of_sandbox) == ([] if is_allowed else ["/sandbox/binds/0"])
    assert places(policy, of_container) == ([] if is_allowed else ["/container/binds/0"])


@pytest.mark.parametrize(
    ("image", "is_allowed"),
    [
        ("registry.example.org/team/etl:2", True),
        ("registry.example.org.evil.test/etl", False),
        ("etl", False),
        ("REGISTRY.example.org/etl", False),
    ],
)
def test_images_match_a_pattern_of_the_policy(image: str, is_allowed: bool) -> None:
    policy = policy_in({"policy": {"images": ["registry.example.org/*"]}})

    assert places(policy, work(container={"image": image})) == (
        [] if is_allowed else ["/container/image"]
    )


def test_a_problem_says_what_is_allowed() -> None:
    policy = policy_in({"policy": {"executors": ["container"], "images": ["registry/*"]}})

    [of_command] = policy.problems_of(COMMAND)
    [of_image] = policy.problems_of(CONTAINER)

    assert of_command.detail == "the executor 'process' is not allowed; allowed are container"
    assert "allowed are registry/*" in of_image.detail


@pytest.mark.parametrize(
    ("fields", "is_allowed"),
    [
        ({"user": "batch"}, True),
        ({"user": "other"}, False),
        ({}, False),
        ({"sandbox": "default"}, True),
        ({"command": None, "python": "shop:main"}, False),
        ({"command": None, "container": "busybox"}, True),
    ],
)
def test_without_a_sandbox_a_task_runs_as_a_user_of_the_policy(
    fields: Json, is_allowed: bool
) -> None:
    policy = policy_in({"policy": {"users": ["batch"]}})

    assert places(policy, work(**fields)) == ([] if is_allowed else ["/user"])


def test_a_policy_for_commands_does_not_allow_other_users() -> None:
    policy = policy_in({"policy": {"executors": ["process"]}})

    assert places(policy, work()) == []
    assert places(policy, work(user="batch")) == ["/user"]


@pytest.mark.parametrize(
    ("given", "pointers"),
    [
        ({}, ["/limits/cpu", "/limits/memory"]),
        ({"cpu": 0.5, "memory": "64MiB"}, []),
        ({"cpu": 0.5, "memory": "64MiB", "pids": 4_000}, []),
        ({"cpu": 0.75, "memory": "65MiB"}, ["/limits/cpu", "/limits/memory"]),
        ({"memory": 1 << 20}, ["/limits/cpu"]),
    ],
)
def test_a_task_has_limits_within_those_of_the_policy(given: Json, pointers: list[str]) -> None:
    policy = policy_in({"policy": {"limits": {"cpu": 0.5, "memory": "64MiB"}}})

    assert places(policy, work(limits=given)) == pointers


def test_a_task_whose_executor_has_no_limits_is_refused_by_limits() -> None:
    policy = policy_in({"policy": {"limits": {"pids": 10}}})

    assert places(policy, Work(executor="scripted")) == ["/type"]
    [problem] = policy.problems_of(COMMAND)
    assert problem.detail == "a limit is required; write 10 or less"


def test_a_task_selects_the_nodes_of_the_policy() -> None:
    policy = policy_in({"policy": {"nodes": {"pool": "a", "zone": "b"}}})

    found = [each.detail for each in policy.problems_of_selector((("pool", "a"), ("zone", "c")))]
    assert found == ["the label 'zone=b' of a node is required; add 'zone': 'b'"]
    assert list(policy.problems_of_selector((("disk", "ssd"), ("pool", "a"), ("zone", "b")))) == []


def test_a_node_has_the_labels_of_the_policy() -> None:
    policy = policy_in({"policy": {"nodes": {"pool": "a"}}})

    assert policy.lacks({"pool": "b"}) == "pool=a"
    assert policy.lacks({"pool": "a", "zone": "b"}) == ""
    assert OPEN.lacks({}) == ""
