"""Namespaces on a node: the policy of those that have none."""

from typing import Any

import msgspec
import pytest

from rota.core.errors import Refused
from rota.core.model.attempt import AttemptKey, Order, Token
from rota.core.model.ids import Epoch, ExecutionId, Index
from rota.core.model.job import JobSpec
from rota.core.model.shared_document import NAMESPACES, DocumentKey, next_version
from rota.core.timing.instants import Instant
from rota.node.namespaces.namespaces import Namespaces
from rota.node.namespaces.policy import DEFAULT_POLICIES
from rota.wire.bodies.job_bodies import job_spec
from rota.wire.documents import JobBody

Json = Any  # Any: a document, and fields of a job.


def namespaces(default_policy: str, document: Json = None) -> Namespaces:
    """Return the namespaces of a node, with a document of ``team-a`` if one is given."""
    found = Namespaces(
        refuses_unknown=False, labels={}, default_policy=DEFAULT_POLICIES[default_policy]
    )
    if document is not None:
        key = DocumentKey(NAMESPACES, "team-a")
        found.changed(key, next_version(key, None, document, at=Instant(1), by="ann"))
    return found


def job(namespace: str = "team-a", **fields: Json) -> JobSpec:
    body = {"name": "job", "namespace": namespace, "command": "true", **fields}
    return job_spec(msgspec.convert(body, JobBody))


def order(spec: JobSpec) -> Order:
    return Order(
        key=AttemptKey(ExecutionId("e"), "main", 1),
        token=Token(Epoch(1), Index(1)),
        work=spec.tasks[0].work,
        fire_at=Instant(1),
        job=spec.full_name,
    )


@pytest.mark.parametrize("document", [None, {}, {"pause": {"by": "ann"}}])
@pytest.mark.parametrize("namespace", ["team-a", "default"])
def test_a_namespace_without_a_policy_has_the_default_policy(
    document: Json, namespace: str
) -> None:
    strict, is_open = namespaces("strict", document), namespaces("open", document)

    with pytest.raises(Refused, match="write 'strict'"):
        strict.check(job(namespace))
    assert "the sandbox 'none' is not allowed" in strict.why_not(order(job(namespace)))
    assert strict.permitted_binds(order(job(namespace))) == ()
    strict.check(job(namespace, sandbox="strict"))
    is_open.check(job(namespace))
    assert is_open.why_not(order(job(namespace))) == ""


def test_a_policy_of_its_own_replaces_the_default_policy() -> None:
    own = namespaces("strict", {"policy": {}})

    own.check(job())
    assert own.why_not(order(job())) == ""
