"""Choice of the endpoint for a job from the headers of earlier answers."""

import pytest

from rota.client import requests
from rota.client.transport.call import Call
from rota.client.transport.endpoints import DOWN_S, Endpoints
from rota.client.transport.owners import Owners
from rota.client.transport.tries import Tries
from rota.core.model.ids import ExecutionId, JobId, Slot, slot_of, slot_of_id
from rota.wire import operations
from rota.wire.headers import NODE, PRIMARY

A, B, C = "http://a", "http://b", "http://c"
SLOT, ANOTHER = Slot(7), Slot(8)


def test_a_node_that_answers_without_forwarding_is_the_owner() -> None:
    owners = Owners((A, B))

    owners.record(B, SLOT, {NODE: "n2"})

    assert owners.endpoint_of(SLOT) == B
    assert owners.endpoint_of(ANOTHER) is None
    assert owners.endpoint_of(None) is None


def test_an_endpoint_of_an_unknown_node_may_be_the_owners() -> None:
    owners = Owners((A, B, C))

    owners.record(A, SLOT, {NODE: "n1", PRIMARY: "n3"})
    at_first = owners.endpoint_of(SLOT)
    owners.record(B, SLOT, {NODE: "n2", PRIMARY: "n3"})
    then = owners.endpoint_of(SLOT)
    owners.record(C, SLOT, {NODE: "n3"})

    assert (at_first, then) == (B, C)
    assert owners.endpoint_of(SLOT) == C


def test_an_owner_at_no_endpoint_is_reached_through_any() -> None:
    owners = Owners((A, B))

    owners.record(A, None, {NODE: "n1"})
    owners.record(B, SLOT, {NODE: "n2", PRIMARY: "n3"})

    assert owners.endpoint_of(SLOT) is None


def test_the_newest_answer_counts() -> None:
    owners = Owners((A, B))
    owners.record(A, SLOT, {NODE: "n1"})
    owners.record(B, None, {NODE: "n2"})

    owners.record(A, SLOT, {NODE: "n1", PRIMARY: "n2"})

    assert owners.endpoint_of(SLOT) == B


def test_an_answer_without_its_nodes_name_changes_nothing() -> None:
    owners = Owners((A, B))

    owners.record(A, SLOT, {})

    assert owners.endpoint_of(SLOT) is None


def test_a_call_about_a_job_goes_to_its_owner_first_unless_that_is_down() -> None:
    endpoints = Endpoints((A, B, C))
    endpoints.worked(A)
    endpoints.owners.record(C, SLOT, {NODE: "n3"})
    call = Call("GET", "/", bytes, slot=SLOT)

    first = Tries(call, endpoints, now=0.0, timeout_s=1.0, repeats_max=0).first(0.0)
    endpoints.failed(C, 0.0)

    assert first.url == C
    assert endpoints.ordered(1.0, SLOT)[-1] == C
    assert endpoints.ordered(DOWN_S, SLOT)[0] == C
    assert endpoints.ordered(DOWN_S)[0] == A


@pytest.mark.parametrize(
    ("named", "namespace", "slot"),
    [
        ("nightly", None, slot_of("default", "nightly")),
        ("nightly", "team", slot_of("team", "nightly")),
        ("team/nightly", "ignored", slot_of("team", "nightly")),
        ("3f2a9c0011223344", None, slot_of_id(JobId("3f2a9c0011223344"))),
        ("no name\ud800", None, None),
    ],
)
def test_a_call_has_the_slot_of_its_job(
    named: str, namespace: str | None, slot: Slot | None
) -> None:
    assert requests.call(operations.GET_JOB, named, namespace=namespace).slot == slot
    assert requests.call(operations.RESUME_JOB, named, namespace=namespace).slot == slot


def test_a_call_has_the_slot_of_its_execution() -> None:
    execution_id = ExecutionId("3f2a9c0011223344-0660c1a4f8fe40-0000")

    assert requests.wait(execution_id, 1.0).slot == slot_of_id(execution_id)
    assert requests.call(operations.GET_EXECUTION, "no execution").slot is None
