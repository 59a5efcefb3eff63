"""Errors of the client: they pass through process pools and task queues."""

import pickle

import pytest

from rota.client.errors import (
    NotFound,
    RequestFailed,
    TooBusy,
    Unreachable,
    WaitTimedOut,
)
from rota.core.errors import Kind, Problem, Refused, RotaError
from rota.wire.documents import FieldProblem, ProblemView

PROBLEM = ProblemView(
    type="urn:rota:problem:job_not_found",
    title="Not found",
    status=404,
    code="job_not_found",
    detail="no job 'a'",
    errors=[FieldProblem(pointer="/name", detail="unknown")],
)


@pytest.mark.parametrize(
    "error",
    [
        RequestFailed(PROBLEM),
        NotFound(PROBLEM),
        TooBusy(PROBLEM, retry_after_s=2.5),
        Unreachable("no node", may_have_arrived=True, idempotency_key="k"),
        WaitTimedOut([], 3),
        Refused(Kind.INVALID, "invalid", "no", problems=(Problem("/a", "b"),), retry_after_s=1),
    ],
    ids=lambda each: type(each).__name__,
)
def test_an_error_is_the_same_after_pickle(error: RotaError) -> None:
    copied = pickle.loads(pickle.dumps(error))

    assert type(copied) is type(error)
    assert str(copied) == str(error)
    assert copied.args == error.args
    assert vars(copied) == vars(error)
