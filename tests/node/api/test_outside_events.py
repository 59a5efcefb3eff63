"""Events from outside over HTTP: in both modes of CloudEvents, once, and to the right jobs."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from support.cluster import Cluster
from support.raw_http import exchange, request_of
from support.rotad import Refusal, Rotad

Json = Any  # Any: an answer of a node, examined by each test.

EVENT = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "paid", "data": {"sum": 7}}
STRUCTURED = {"Content-Type": "application/cloudevents+json"}


def post(
    node: Rotad, body: Json, headers: Mapping[str, str] = STRUCTURED, *, namespace: str
) -> Json:
    """Post an event, and return the answer."""
    return node.call("POST", f"/api/v1/events?namespace={namespace}", body, dict(headers))


def refused(node: Rotad, body: Json) -> tuple[int, Json]:
    """Post an event that is refused, and return the status and the problem."""
    with pytest.raises(Refusal) as found:
        post(node, body, namespace="ev-bad")
    return found.value.status, found.value.problem


def job(node: Rotad, namespace: str, **trigger: Json) -> None:
    """Create a job with a trigger, and wait until events reach it."""
    triggers = [{"event": "paid", **trigger}]
    node.create(name="sold", namespace=namespace, command="true", triggers=triggers)
    path = f"/api/v1/events?namespace={namespace}&dryRun=true"
    node.wait_until(lambda: node.call("POST", path, {**EVENT, "id": "dry"})["jobs"] == 1)


def executions_of(node: Rotad, namespace: str) -> list[Json]:
    found = node.call("GET", f"/api/v1/executions?namespace={namespace}")["items"]
    ended = [node.ended(each["executionId"])["executionId"] for each in found]
    return [node.call("GET", f"/api/v1/executions/{each}") for each in ended]


def test_an_event_starts_a_job_once_with_its_data(node: Rotad) -> None:
    job(node, "ev-once", when="event.data.sum > 5")

    answers = [post(node, {**EVENT, "region": "eu"}, namespace="ev-once") for _ in range(2)]

    view = {"id": "1", "source": "/shop", "type": "paid", "namespace": "ev-once", "jobs": 1}
    assert answers == [{**view, "repeated": False}, {**view, "repeated": True}]
    [execution] = executions_of(node, "ev-once")
    assert execution["trigger"] == "event"
    event = execution["parameters"]["event"]
    assert (event["data"], event["region"]) == ({"sum": 7}, "eu")


def test_attributes_may_be_headers(node: Rotad) -> None:
    job(node, "ev-binary")
    attributes = {"ce-specversion": "1.0", "ce-id": "a%20b", "ce-source": "/s", "Ce-Type": "paid"}

    view = post(node, [1, 2], attributes, namespace="ev-binary")

    assert (view["id"], view["jobs"]) == ("a b", 1)
    [execution] = executions_of(node, "ev-binary")
    assert execution["parameters"]["event"]["data"] == [1, 2]


def test_a_job_that_events_start_needs_no_parameters_before(node: Rotad) -> None:
    schema = {"type": "object", "required": ["event"]}
    triggers = [{"event": "paid"}]

    saved = node.create(
        name="needy",
        namespace="ev-schema",
        command="true",
        parametersSchema=schema,
        triggers=triggers,
    )

    assert saved["events"] == ["paid"]


def test_an_event_that_no_job_is_for_is_received(node: Rotad) -> None:
    assert post(node, EVENT, namespace="ev-none")["jobs"] == 0


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"specversion": "0.3"}, "/specversion"),
        ({"id": ""}, "/id"),
        ({"id": "x" * 256}, "/id"),
        ({"id": 7}, "/id"),
        ({"source": ""}, "/source"),
        ({"type": "a/b"}, "/type"),
        ({"time": "yesterday"}, "/time"),
        ({"Region": "eu"}, "/Region"),
        ({"region": {"a": 1}}, "/region"),
        ({"subject": "x" * 2_001}, "/subject"),
        ({"data": None, "data_base64": "?"}, "/data_base64"),
        ({"source": None}, "/source"),
        ({"data_base64": "eA=="}, "/data_base64"),
        ({"data": "x" * 66_000}, ""),
    ],
)
def test_a_bad_event_is_refused_with_the_place(
    node: Rotad, change: dict[str, Json], pointer: str
) -> None:
    status, problem = refused(node, {**EVENT, **change})

    assert (status, problem["code"]) == (422, "invalid_event")
    assert pointer in [each["pointer"] for each in problem["errors"]]


@pytest.mark.parametrize("content", [b"{", b"[]", b"7", b"", b'{"id": 1, "id": 2}'])
def test_what_is_no_object_is_refused(node: Rotad, content: bytes) -> None:
    status, problem = refused(node, content)

    assert status in (400, 422), problem


@pytest.mark.parametrize("path", ["/api/v1/events", "/api/v1/jobs/deep/trigger"])
@pytest.mark.parametrize("levels", [101, 500, 960, 5_000])
def test_deep_json_is_refused_and_stops_no_node(node: Rotad, path: str, levels: int) -> None:
    deep = "[" * levels + "]" * levels
    event = {**EVENT, "data": None, "parameters": None}
    body = json.dumps(event).replace("null", deep).encode()

    with pytest.raises(Refusal) as found:
        node.call("POST", path, body, STRUCTURED)

    assert (found.value.status, found.value.problem["code"]) == (422, "invalid_body")
    assert "more than 100 levels" in found.value.problem["detail"]


def test_a_deep_result_is_not_kept(node: Rotad) -> None:
    script = "import os; open(os.environ['ROTA_RESULT'], 'w').write('[' * 900 + ']' * 900)"
    tasks = [
        {"name": "deep", "command": ["python3", "-c", script]},
        {"name": "next", "needs": ["deep"], "command": ["echo", "{{ params.x }}"]},
    ]

    execution = node.run(name="deep-result", tasks=tasks, parameters={"x": 1})

    assert execution["status"] == "success"
    assert "more than 100 levels" in execution["tasks"]["deep"]["attempts"][-1]["reason"]


@pytest.mark.parametrize(
    ("headers", "pointer"),
    [
        ({"ce-subject": "%ff"}, "/subject"),
        ({"ce-data": "x"}, "/data"),
        ({"ce-type": "a/b"}, "/type"),
        ({"ce-source": ""}, "/source"),
        ({"ce-specversion": "0.3"}, "/specversion"),
    ],
)
def test_bad_attributes_in_headers_are_refused(
    node: Rotad, headers: dict[str, str], pointer: str
) -> None:
    given = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "paid"}

    with pytest.raises(Refusal) as found:
        post(node, None, {**given, **headers}, namespace="ev-bad")

    assert found.value.problem["code"] == "invalid_event"
    assert [each["pointer"] for each in found.value.problem["errors"]] == [pointer]


@pytest.mark.parametrize("more", [b"ce-subject: \xff\r\n", b"ce-id: 2\r\n"])
def test_headers_that_are_no_text_or_given_twice_are_refused(node: Rotad, more: bytes) -> None:
    given = b"ce-specversion: 1.0\r\nce-id: 1\r\nce-source: /s\r\nce-type: paid\r\n"

    answer = exchange(node, request_of("POST", "/api/v1/events", b"7", given + more))

    assert b" 422 " in answer.splitlines()[0]


def test_a_missing_attribute_is_named(node: Rotad) -> None:
    _, problem = refused(node, {"specversion": "1.0", "id": "1", "type": "paid"})

    assert "source" in problem["detail"]


def test_any_node_of_a_cluster_receives_events_for_jobs_of_all_shards(cluster: Cluster) -> None:
    first, *_ = nodes = list(cluster)
    for number in range(6):
        first.create(
            name=f"at-{number}",
            namespace="ev-spread",
            command="true",
            triggers=[{"event": "spread"}],
        )

    started = 0

    def reaches_all() -> bool:
        nonlocal started
        event = {**EVENT, "type": "spread", "id": f"try-{started}"}
        jobs = int(post(nodes[-1], event, namespace="ev-spread")["jobs"])
        started += jobs
        return jobs == 6

    cluster.wait_until(reaches_all, "events do not reach all jobs")
    for number, node in enumerate(nodes):
        event = {**EVENT, "type": "spread", "id": str(number)}
        started += int(post(node, event, namespace="ev-spread")["jobs"])

    def executions() -> int:
        return len(first.call("GET", "/api/v1/executions?namespace=ev-spread&limit=200")["items"])

    assert started >= 24
    cluster.wait_until(lambda: executions() == started, "an event was lost")
