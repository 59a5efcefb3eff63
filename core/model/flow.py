"""The parts of a task's definition that make a flow: loops, and waits and choices without a slot.

A task has at most one loop and at most one wait or choice. Without these, each of its steps is an
attempt.
"""

from typing import NamedTuple

import msgspec

from rota.core.model.work import Work
from rota.core.timing.instants import Duration

ITEMS_MAX = 10_000
"""The most items of one ``foreach``."""
ITEM_BYTES_MAX = 64 << 10
"""The largest item: it becomes a variable of the environment."""
MATRIX_BYTES_MAX = 8 << 20
"""The most bytes of all items of a matrix together, in which each value occurs often."""
CALL_BYTES_MAX = ITEM_BYTES_MAX
"""The largest parameters, and the largest results, that pass between a step and another job."""
EVENT_BYTES_MAX = ITEM_BYTES_MAX
"""The largest data of an event."""
EVENTS_BYTES_MAX = 1 << 20
"""The most bytes of the data of all events of one execution: a primary has them in memory."""
EVENTS_MAX = 1_000
"""The most names of events of one execution, posted or waited for."""
PARALLEL_DEFAULT = 100
PARALLEL_MAX = 1_000
ROUNDS_MAX = 1_000
CASES_MAX = 100
WAIT_MAX = Duration(365 * 24 * 3600 * 1_000_000)
MESSAGE_LENGTH_MAX = 4_096


class Foreach(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="foreach"):
    """A loop over items: each item is a step of its own, and some run at the same time.

    The items are known when the loop starts, and recorded: no task that needs the loop is decided
    before. Steps begin in the order of the items, so that at most *max_parallel* exist unended.

    One of *items*, *expression* and *matrix* is not empty.

    Attributes:
        items: The items as a JSON list.
        expression: An expression for the list.
        matrix: A JSON object that has a list, or an expression for one, for each name. The items
            are objects, one for each combination; the values of the last name change first.
        max_parallel: The number of steps that may run at the same time.
        tolerated: The number of steps that may fail without a failure of the task. After one more,
            no further step begins.
        is_skipped_if_empty: Whether a loop over no items is skipped; otherwise it succeeds.
    """

    items: str = ""
    expression: str = ""
    matrix: str = ""
    max_parallel: int = PARALLEL_DEFAULT
    tolerated: int = 0
    is_skipped_if_empty: bool = True


class Repeat(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="repeat"):
    """A loop of rounds, one after the other, at least one.

    Attributes:
        until: An expression, evaluated after each successful round; the loop ends when it is true.
        limit: The most rounds; if *until* is not true after these, the task fails.
        delay: The time between the end of a round and the next one.
    """

    until: str
    limit: int
    delay: Duration = Duration(0)


class Sleep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="sleep"):
    """A wait for a time.

    Attributes:
        duration: How long; not used with *until*.
        until: An expression for an instant (RFC 3339); empty for a duration.
    """

    duration: Duration = Duration(0)
    until: str = ""


class Approval(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="approval"):
    """A wait for a person, who approves or rejects.

    Attributes:
        message: What is to be approved; a template.
        form: The JSON Schema of what the person fills in, which becomes the result; empty for none.
        timeout: The time after which the task fails without an answer; 0 for no limit.
        is_skipped_if_rejected: Whether a rejection skips the task; otherwise it fails.
        by: The subjects that may answer; empty for all callers with the verb ``run``.
    """

    message: str = ""
    form: str = ""
    timeout: Duration = Duration(0)
    is_skipped_if_rejected: bool = False
    by: tuple[str, ...] = ()


class Case(msgspec.Struct, frozen=True, array_like=True):
    """A case of a switch.

    Attributes:
        when: An expression; empty for the case that holds if no earlier one does.
        to: The names of the tasks that the case chooses.
    """

    when: str
    to: tuple[str, ...]


class Switch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="switch"):
    """A choice between tasks that need this one: the first case that holds names those that run."""

    cases: tuple[Case, ...]


class RunJob(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="runJob"):
    """A wait for an execution of another job, which the step begins.

    Attributes:
        job: The full name of the job.
        parameters: The parameters as JSON, whose texts may be templates; empty for the job's own.
    """

    job: str
    parameters: str = ""


class WaitForEvent(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="waitForEvent"
):
    """A wait for an event that a user, a program or a task posts to the execution.

    Attributes:
        event: The name of the event; a template.
        timeout: The time after which the wait ends without the event; 0 for no limit.
        is_skipped_after: Whether the end of that time skips the task; otherwise it fails.
    """

    event: str
    timeout: Duration = Duration(0)
    is_skipped_after: bool = False


Loop = Foreach | Repeat
Wait = Sleep | Approval | Switch | RunJob | WaitForEvent


class Text(NamedTuple):
    """A text in the work of a task that may be a template.

    Attributes:
        pointer: Its JSON pointer in the task.
        text: The text; if it is JSON, each text in it may be a template.
        is_json: Whether it is JSON.
        is_line: Whether it is a line for a shell, in which values are quoted.
    """

    pointer: str
    text: str
    is_json: bool = False
    is_line: bool = False


def texts_of(work: Work) -> list[Text]:
    """Return the texts in *work* that may be templates."""
    return [
        *(Text(f"/command/{number}", text) for number, text in enumerate(work.argv)),
        Text("/command", work.shell, is_line=True),
        *(Text(f"/env/{name}", text) for name, text in work.env),
        Text("/stdin", work.stdin),
        Text("/parameters", work.parameters, is_json=True),
        Text("/python", work.call.arguments if work.call else "", is_json=True),
    ]
