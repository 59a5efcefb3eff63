"""Details of an attempt's end that stay on record."""

import pytest
from msgspec.structs import replace

from rota.core.model.attempt import RESULT_BYTES_MAX, Attempt, Ending, Outcome, Raised, Token
from rota.core.model.ids import Epoch, Index, NodeId, Session
from rota.core.model.recorded_endings import DETAILS_KEPT, recordable, with_ending
from rota.core.timing.instants import Instant

SUCCESS = Ending(outcome=Outcome.SUCCEEDED, started_at=Instant(1), finished_at=Instant(2))
FAILURE = replace(
    SUCCESS,
    outcome=Outcome.FAILED,
    reason="no stock",
    output=b"looking",
    raised=Raised(type="a.B", bases=("Exception",), message="no stock", traceback="File …"),
    unenforced=("no cgroup",),
    left_running="a process that it left running was killed: sleep",
)


def test_the_result_of_a_success_is_kept() -> None:
    ending = replace(SUCCESS, result=b'{"rows": 3}')

    assert recordable(ending) == ending


@pytest.mark.parametrize("outcome", [each for each in Outcome if each is not Outcome.SUCCEEDED])
def test_no_other_has_a_result(outcome: Outcome) -> None:
    ending = replace(FAILURE, outcome=outcome)

    assert recordable(replace(ending, result=b"3")) == ending


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (b'"' + b"x" * (RESULT_BYTES_MAX - 1) + b'"', "has 1048577 bytes, and at most 1048576"),
        (b"{", "is not JSON"),
        (b"NaN", "is not JSON"),
        (b'"\xff"', "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
    ],
)
def test_a_result_that_cannot_be_stored_is_reported_and_costs_no_success(
    result: bytes, why: str
) -> None:
    ending = recordable(replace(SUCCESS, result=result))

    assert ending.outcome is Outcome.SUCCEEDED
    assert ending.result == b""
    assert ending.reason.startswith(f"its result was not kept: it {why}")


def test_a_result_of_just_the_limit_is_kept() -> None:
    ending = replace(SUCCESS, result=b'"' + b"x" * (RESULT_BYTES_MAX - 2) + b'"')

    assert recordable(ending) == ending


def test_a_result_for_which_its_execution_has_no_room_is_not_kept() -> None:
    ending = replace(SUCCESS, result=b"12345")

    assert recordable(ending, room=5) == ending
    assert recordable(ending, room=4).reason == (
        "its result was not kept: it has 5 bytes, and only 4 of the 8388608 bytes for all results "
        "of an execution are left"
    )


def test_only_the_newest_attempts_keep_what_may_be_long() -> None:
    attempts: tuple[Attempt, ...] = ()
    for number in range(1, DETAILS_KEPT + 3):
        attempts = with_ending((*attempts, attempt(number)), FAILURE)

    outline = replace(
        FAILURE, output=b"", raised=Raised(type="a.B"), unenforced=(), left_running=""
    )
    assert [one.ending for one in attempts] == [outline] * 2 + [FAILURE] * DETAILS_KEPT


def attempt(number: int) -> Attempt:
    return Attempt(
        number=number,
        token=Token(Epoch(1), Index(number)),
        node_id=NodeId("n"),
        session=Session("s"),
        placed_at=Instant(1),
    )
