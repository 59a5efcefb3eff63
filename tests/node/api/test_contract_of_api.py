"""Agreement of the API with its description: every answer, also to random requests, is declared."""

# pyright: basic
# schemathesis leaves its generics open, which strict checking takes for a fault of this file.

import os
import urllib.request
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, seed, settings
from schemathesis.checks import CHECKS

from rota.node.api.app import OPERATIONS
from rota.node.api.reference.openapi import describe
from support.rotad import Refusal, Rotad

EXAMPLES = int(os.environ.get("CONTRACT_EXAMPLES", "4"))
SEED = int(os.environ.get("CONTRACT_SEED", "1"))

CHECKED = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
    "allow_header_conformance",
)
NOT_CHECKED = {
    # Each item of these is judged by itself, and its error is in a 200.
    "create_many": {"negative_data_rejection"},
    "put_many": {"negative_data_rejection"},
    "trigger_many": {"negative_data_rejection"},
    # Any of these is also an address of a job, whose name follows its namespace.
    "pause_job": {"allow_header_conformance", "unsupported_method"},
    "resume_job": {"allow_header_conformance", "unsupported_method"},
    "trigger_job": {"allow_header_conformance", "unsupported_method"},
    "next_fires": {"allow_header_conformance", "unsupported_method"},
    "read_ledger": {"allow_header_conformance", "unsupported_method"},
    "explain_job": {"allow_header_conformance", "unsupported_method"},
    "create_backfill": {"allow_header_conformance", "unsupported_method"},
    "list_state": {"allow_header_conformance", "unsupported_method"},
    "list_backfills": {"allow_header_conformance", "unsupported_method"},
    # To a method that is not here, n1:drain is also a node that can be deleted.
    "drain_node": {"allow_header_conformance"},
    "undrain_node": {"allow_header_conformance"},
}
ENDLESS = ["follow_events"]
"""Their answers do not end; they have tests of their own."""

Case = schemathesis.Case[Any]  # Any: what it says of its operation, which is not looked into.

schema = schemathesis.openapi.from_dict({**describe(OPERATIONS), "security": []})
"""The node of these tests is open, and accepts requests without the token that the description
requires."""


@pytest.fixture(scope="module")
def known(node: Rotad) -> dict[str, str]:
    """Ids and names of existing records, for the paths."""
    node.create(name="known", type="scripted", schedule="@daily", labels={"a": "b"})
    node.call("PUT", "/api/v1/types/known", {"template": {"command": "true"}})
    execution = node.trigger("known")
    node.ended(execution)
    since = {"since": "2026-11-01T00:00:00Z"}
    backfill = node.call("POST", "/api/v1/jobs/known/backfills", since)["backfillId"]
    node.call("PUT", "/api/v1/jobs/known/state/known", {"value": [1, None]})
    return {
        "job": "known",
        "key": "known",
        "backfill": backfill,
        "namespace": "default",
        "execution": execution,
        "task": "main",
        "document": "known",
        "secret": "known",
        "node": node.call("GET", "/version")["nodeId"],
        "shard": "0",
    }


drawn = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
"""How requests are drawn; the seed makes them the same each time."""


@schema.exclude(operation_id=ENDLESS).parametrize()
@seed(SEED)
@drawn
def test_every_answer_is_one_that_is_declared(case: Case, node: Rotad) -> None:
    _answered(case, node)


@schema.include(path_regex="{").exclude(method="DELETE").parametrize()
@seed(SEED)
@drawn
def test_every_answer_about_what_is_there_is_one_that_is_declared(
    case: Case, node: Rotad, known: dict[str, str]
) -> None:
    case.path_parameters = {part: known[part] for part in case.path_parameters}
    case.query.pop("namespace", None)

    _answered(case, node)


def _answered(case: Case, node: Rotad) -> None:
    """Send *case*; raise an error if the answer contradicts the description."""
    answer = case.call(base_url=node.url, timeout=30)
    left_out = NOT_CHECKED.get(case.operation.definition.raw["operationId"], set[str]())
    if answer.status_code == 413:
        # Drawn texts may make a body too long, which the check does not count as a refusal.
        left_out = left_out | {"negative_data_rejection"}
    names = [each for each in CHECKED if each not in left_out]
    checks: Any = CHECKS.get_by_names(names)  # Any: it may name more checks than a case takes.
    # A line beyond the limit of HTTP lines is refused before the operation is determined.
    if answer.status_code != 400 or "Got more than 8190 bytes" not in answer.text:
        case.validate_response(answer, checks=checks)


# -- queries ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "name", "detail"),
    [
        ("/api/v1/jobs?limit=1&limit=2", "limit", "is repeated; give it once"),
        ("/api/v1/jobs?limt=1", "limt", "takes: namespace"),
        ("/api/v1/jobs?limit=0", "limit", "from 1 to 1000"),
        ("/api/v1/executions?status=done", "status", "queued, running"),
        ("/api/v1/executions?from=yesterday", "from", "yesterday"),
        ("/api/v1/executions/{execution}/wait?timeout=long", "timeout", "long"),
        ("/api/v1/executions/{execution}/tasks/main/output?follow=yes", "follow", "true, false"),
    ],
)
def test_a_parameter_that_cannot_be_is_refused_by_its_name(
    node: Rotad, known: dict[str, str], path: str, name: str, detail: str
) -> None:
    with pytest.raises(Refusal) as refused:
        node.call("GET", path.format(**known))

    [error] = refused.value.problem["errors"]
    assert refused.value.problem["code"] == "invalid_query"
    assert error["pointer"] == f"/query/{name}"
    assert detail in error["detail"]


def test_the_offset_of_an_instant_may_be_sent_with_a_bare_plus(node: Rotad) -> None:
    page = node.call("GET", "/api/v1/executions?to=2020-01-01T00:00:00+01:00")

    assert page["items"] == []


# -- what HTTP asks for (RFC 9110) -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "header", "media_types"),
    [
        ("POST", "/api/v1/jobs", "Accept-Post", "application/json, application/cloudevents+json"),
        ("PUT", "/api/v1/jobs/a/b", "Accept", "application/json"),
        (
            "PATCH",
            "/api/v1/jobs/known",
            "Accept-Patch",
            "application/merge-patch+json, application/json",
        ),
    ],
)
def test_a_refused_media_type_is_answered_with_the_accepted_ones(
    node: Rotad, method: str, path: str, header: str, media_types: str
) -> None:
    with pytest.raises(Refusal) as refused:
        node.call(method, path, b"name: x", {"Content-Type": "application/yaml"})

    assert refused.value.status == 415
    assert refused.value.headers[header] == media_types


def test_a_merge_patch_is_taken_by_its_name(node: Rotad, known: dict[str, str]) -> None:
    patch = {"description": "patched"}

    job = node.call(
        "PATCH",
        f"/api/v1/jobs/{known['job']}",
        patch,
        {"Content-Type": "application/merge-patch+json"},
    )

    assert job["description"] == "patched"


def test_a_refused_method_is_answered_with_the_allowed_ones(node: Rotad) -> None:
    with pytest.raises(Refusal) as refused:
        node.call("PUT", "/api/v1/jobs")

    assert refused.value.status == 405
    assert set(refused.value.headers["Allow"].split(",")) == {"GET", "HEAD", "POST"}


def test_an_answer_that_is_streamed_names_its_request_too(node: Rotad) -> None:
    node.create(name="streamed", command="echo begun; exec sleep 600")
    execution = node.trigger("streamed")
    url = f"{node.url}/api/v1/executions/{execution}/tasks/main/output?follow=1"

    with urllib.request.urlopen(
        urllib.request.Request(url, headers={"X-Request-Id": "mine"})
    ) as answer:
        named = answer.headers["X-Request-Id"]
        node.call("POST", f"/api/v1/executions/{execution}/cancel")

    assert named == "mine"
