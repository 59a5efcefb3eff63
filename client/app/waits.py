"""Tasks of a flow without a function: they wait on the nodes, where they take no slot."""

from collections.abc import Mapping
from typing import Any

from rota.client.app.graphs import Body, Placement, Step
from rota.client.app.placeholders import Tree, templated
from rota.client.app.signatures import checked_json, checked_tree
from rota.wire.documents import ApprovalBody, RunJobBody, WaitForEventBody


def approval(body: ApprovalBody, placement: Placement) -> Step:
    """Return a wait for a person.

    Raises:
        InvalidArgument: A field of *body* has another type.
    """
    fields = checked_json("approval", body, ApprovalBody)
    return _wait("approval", {"approval": fields}, placement, template=body.message)


def event(body: WaitForEventBody, placement: Placement) -> Step:
    """Return a wait for an event, after which its task is named.

    Raises:
        InvalidArgument: A field of *body* has another type.
    """
    fields = checked_json("wait_for_event", body, WaitForEventBody)
    return _wait(body.event, {"waitForEvent": fields}, placement, template=body.event)


def sleep(duration: float | str, placement: Placement) -> Step:
    """Return a wait for a time, which a run here leaves out."""
    return _wait("sleep", {"sleep": duration}, placement, by_worker=lambda: None)


def run_of(job: str, parameters: Mapping[str, Any] | None, placement: Placement) -> Step:
    """Return an execution of another job, after which its task is named.

    Raises:
        InvalidArgument: A parameter cannot be expressed in JSON.
    """
    tree = checked_tree("parameters", dict(parameters or {}), function=job)
    body = RunJobBody(job=job, parameters=None if parameters is None else templated(tree))
    return _wait(job, {"runJob": checked_json("run_job", body, RunJobBody)}, placement, named=tree)


def _wait(name: str, body: Body, placement: Placement, *, named: Tree = None, **more: Any) -> Step:
    return Step(
        function=name,
        signature=None,
        fields=lambda _, __: body,
        placement=placement,
        positional=[],
        named=named or {},
        **more,
    )
