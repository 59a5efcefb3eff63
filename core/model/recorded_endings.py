"""The part of an attempt's ending that its task's record keeps.

A record is rewritten for every attempt, and is in memory until its execution has ended. So only few
attempts of a task keep their long data, and each within a limit.
"""

import msgspec
from msgspec.structs import replace

from rota.core.decoding import NESTING_MAX, UNDECODABLE, is_too_deep
from rota.core.model.attempt import (
    RESULT_BYTES_MAX,
    RESULTS_BYTES_MAX,
    Attempt,
    Ending,
    Outcome,
    Raised,
)

DETAILS_KEPT = 5
"""The number of newest attempts of a task whose output and traceback stay in its record."""


def recordable(ending: Ending, *, room: int = RESULTS_BYTES_MAX) -> Ending:
    """Return *ending*, with its result only if that is short enough, valid JSON and of a success.

    The outcome is recorded in any case, because the work is done.

    Args:
        ending: The ending as reported.
        room: The number of bytes left for further results of the execution.
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
            f"has {len(ending.result)} bytes, and only {room} of the {RESULTS_BYTES_MAX} bytes for "
            "all results of an execution are left",
        )
    try:
        ending.result.decode()
        msgspec.json.decode(ending.result, type=msgspec.Raw)
    except UNDECODABLE as error:
        return _without_result(ending, f"is not JSON: {error}")
    if is_too_deep(ending.result):
        return _without_result(ending, f"has more than {NESTING_MAX} levels")
    return ending


def with_ending(attempts: tuple[Attempt, ...], ending: Ending) -> tuple[Attempt, ...]:
    """Return *attempts* with *ending* in the last one, and without the details of old attempts."""
    *earlier, last = attempts
    if len(earlier) >= DETAILS_KEPT:
        old = earlier[-DETAILS_KEPT]
        if old.ending is not None:
            earlier[-DETAILS_KEPT] = replace(old, ending=outline(old.ending))
    return (*earlier, replace(last, ending=ending))


def outline(ending: Ending) -> Ending:
    """Return *ending* without its details, such as the output and the traceback."""
    raised = Raised(type=ending.raised.type) if ending.raised else None
    return replace(ending, output=b"", raised=raised, unenforced=(), left_running="")


def _without_result(ending: Ending, why: str) -> Ending:
    return replace(ending, result=b"", reason=f"its result was not kept: it {why}")
