"""The part of an attempt's ending that its task's record keeps.

A record is rewritten at every attempt, and is in memory until its execution has ended. So long data
is kept of few attempts only, and within a limit for each.
"""

import msgspec
from msgspec.structs import replace

from rota.core.decoding import UNDECODABLE
from rota.core.model.attempt import (
    RESULT_BYTES_MAX,
    RESULTS_BYTES_MAX,
    Attempt,
    Ending,
    Outcome,
    Raised,
)

DETAILS_KEPT = 5
"""Attempts of one task, the newest, whose output and traceback stay in its record."""


def recordable(ending: Ending, *, room: int = RESULTS_BYTES_MAX) -> Ending:
    """Return *ending*, without its result unless that is valid JSON, short enough and of a success.

    The outcome is recorded in any case, because the work is done.

    Args:
        ending: As reported.
        room: Bytes that further results of its execution may have.
    """
    if not ending.result:
        return ending
    if ending.outcome is not Outcome.SUCCEEDED:
        return replace(ending, result=b"")
    if len(ending.result) > RESULT_BYTES_MAX:
        return _without_result(
            ending, f"has {len(ending.result)} bytes, and at most {RESULT_BYTES_MAX} are kept"
        )
    if len(ending.result) > room:
        return _without_result(
            ending,
            f"has {len(ending.result)} bytes, and of the {RESULTS_BYTES_MAX} for all results of "
            f"an execution {room} are left",
        )
    try:
        ending.result.decode()
        msgspec.json.decode(ending.result, type=msgspec.Raw)
    except UNDECODABLE as error:
        return _without_result(ending, f"is not JSON: {error}")
    return ending


def with_ending(attempts: tuple[Attempt, ...], ending: Ending) -> tuple[Attempt, ...]:
    """Return *attempts* with the ending of the last one, and without outdated details."""
    *earlier, last = attempts
    if len(earlier) >= DETAILS_KEPT:
        old = earlier[-DETAILS_KEPT]
        if old.ending is not None:
            earlier[-DETAILS_KEPT] = replace(old, ending=outline(old.ending))
    return (*earlier, replace(last, ending=ending))


def outline(ending: Ending) -> Ending:
    """Return *ending* without output and traceback."""
    raised = Raised(type=ending.raised.type) if ending.raised else None
    return replace(ending, output=b"", raised=raised, unenforced=(), left_running="")


def _without_result(ending: Ending, why: str) -> Ending:
    return replace(ending, result=b"", reason=f"its result was not kept: it {why}")
