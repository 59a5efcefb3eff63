"""Checks of the parts of a task that make a flow: conditions, templates, loops and waits."""

import re
from collections.abc import Iterator, Sequence
from math import prod
from typing import Protocol

import msgspec

from rota.core.errors import Problem, out_of_range
from rota.core.model.expressions import (
    has_template,
    problem_of_expression,
    problem_of_template,
    templates_in,
)
from rota.core.model.flow import (
    CALL_BYTES_MAX,
    CASES_MAX,
    ITEM_BYTES_MAX,
    ITEMS_MAX,
    PARALLEL_MAX,
    ROUNDS_MAX,
    WAIT_MAX,
    Approval,
    Foreach,
    Loop,
    Repeat,
    RunJob,
    Sleep,
    Switch,
    Text,
    Wait,
    WaitForEvent,
    texts_of,
)
from rota.core.model.ids import NAME_RULE, is_name
from rota.core.model.subjects import SUBJECT_RULE, is_subject
from rota.core.model.work import Work
from rota.core.quoting import in_quotes
from rota.core.timing.instants import Duration, format_duration

_LITERAL = "write text that is no template between {% raw %} and {% endraw %}"
_TAG = re.compile(r"\{\{(?P<value>.*?)\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)
_RAW = re.compile(r"\{%[-+]?\s*raw\s*[-+]?%\}(.*?)\{%[-+]?\s*endraw\s*[-+]?%\}", re.DOTALL)
_SAFE = re.compile(r"\|\s*safe\s*$")
_QUOTE = re.compile(r"""\\.|['"]""", re.DOTALL)


class FlowingTask(Protocol):
    """The parts of a task's definition that this module checks."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def needs(self) -> tuple[str, ...]:
        """The names of the tasks that it needs."""
        ...

    @property
    def handles_failure(self) -> bool:
        """Whether its success handles failures."""
        ...

    @property
    def is_teardown(self) -> bool:
        """Whether it starts after all others."""
        ...

    @property
    def work(self) -> Work:
        """Its work."""
        ...

    @property
    def when(self) -> str:
        """Its condition."""
        ...

    @property
    def loop(self) -> Loop | None:
        """Its loop."""
        ...

    @property
    def wait(self) -> Wait | None:
        """Its wait."""
        ...

    @property
    def skip_exit_codes(self) -> tuple[int, ...]:
        """The exit codes that skip it."""
        ...

    @property
    def is_templated(self) -> bool:
        """Whether its work contains templates."""
        ...


def problems_of_flow(task: FlowingTask, pointer: str) -> Iterator[Problem]:
    """Yield the errors of the flow of a task at the JSON pointer *pointer*."""
    if task.when:
        yield from _problem_of_expression(task.when, f"{pointer}/when")
    if task.loop is not None:
        yield from problems_of_loop(task.loop, pointer)
    if task.wait is not None:
        yield from problems_of_wait(task.wait, pointer)
    if task.is_templated:
        for text in texts_of(task.work):
            for detail in _problems_of_text(text):
                yield Problem(f"{pointer}{text.pointer}", detail)
    for number, code in enumerate(task.skip_exit_codes):
        if not 1 <= code <= 255:
            yield Problem(f"{pointer}/skipExitCodes/{number}", out_of_range(code, 1, 255))


def _problems_of_text(text: Text) -> Iterator[str]:
    templates = [text.text] if has_template(text.text) else []
    if text.is_json and text.text:
        templates = templates_in(text.text)
    for template in templates:
        if detail := problem_of_template(template):
            yield f"{detail}; {_LITERAL}"
        elif text.is_line and (value := _value_in_quotes(template)):
            yield (
                f"the value {{{{{value}}}}} stands in quotes, but values in a line for the shell "
                "are quoted already: remove the quotes around it, or give the command as a list"
            )


def _value_in_quotes(line: str) -> str:
    """Return the first value in a line for a shell that stands between quotes; empty for none.

    In double quotes the shell would run ``$(...)`` in a value, although the value is quoted.
    """
    line = _RAW.sub(lambda raw: raw[1].replace("{", " "), line)
    quote, end = "", 0
    for tag in _TAG.finditer(line):
        for found in _QUOTE.finditer(line, end, tag.start()):
            if len(found[0]) == 1 and quote in ("", found[0]):
                quote = "" if quote else found[0]
        end = tag.end()
        value = tag["value"]
        if quote and value is not None and not _SAFE.search(value):
            return str(value)
    return ""


def problems_of_loop(loop: Loop, pointer: str) -> Iterator[Problem]:
    """Yield the errors of a loop of the task at the JSON pointer *pointer*."""
    match loop:
        case Foreach():
            place = f"{pointer}/foreach"
            if loop.matrix:
                yield from _problems_of_matrix(loop.matrix, f"{place}/matrix")
            elif not loop.items:
                yield from _problem_of_expression(loop.expression, place)
            elif detail := problem_of_items(_items(loop.items)):
                yield Problem(place, detail)
            if not 1 <= loop.max_parallel <= PARALLEL_MAX:
                detail = out_of_range(loop.max_parallel, 1, PARALLEL_MAX)
                yield Problem(f"{place}/maxParallel", detail)
            if not 0 <= loop.tolerated <= ITEMS_MAX:
                detail = out_of_range(loop.tolerated, 0, ITEMS_MAX)
                yield Problem(f"{place}/toleratedFailures", detail)
        case Repeat():
            place = f"{pointer}/repeat"
            yield from _problem_of_expression(loop.until, f"{place}/until")
            if not 1 <= loop.limit <= ROUNDS_MAX:
                yield Problem(f"{place}/limit", out_of_range(loop.limit, 1, ROUNDS_MAX))
            yield from _problem_of_duration(loop.delay, f"{place}/delay")


def _problems_of_matrix(matrix: str, pointer: str) -> Iterator[Problem]:
    axes = msgspec.json.decode(matrix, type=dict[str, str | list[msgspec.Raw]])
    if not axes:
        yield Problem(pointer, "the matrix needs at least one name with a list of values")
    for name, values in axes.items():
        if isinstance(values, str):
            yield from _problem_of_expression(values, f"{pointer}/{name}")
    count = prod(len(values) for values in axes.values() if not isinstance(values, str))
    if count > ITEMS_MAX:
        yield Problem(pointer, too_many_items(count))


def problems_of_teardowns(tasks: Sequence[FlowingTask]) -> Iterator[Problem]:
    """Yield the errors of the teardowns among the tasks of a job."""
    teardowns = {task.name for task in tasks if task.is_teardown}
    if teardowns and len(teardowns) == len(tasks):
        detail = "all tasks are teardowns, which start after the others; one has to be none"
        yield Problem("/tasks", detail)
    for number, task in enumerate(tasks):
        if task.is_teardown and task.handles_failure:
            detail = "a teardown cannot handle failures; let a task that is none do it"
            yield Problem(f"/tasks/{number}/handlesFailure", detail)
        late = [name for name in task.needs if name in teardowns and not task.is_teardown]
        if late:
            detail = f"{in_quotes(late[0])} is a teardown, which only teardowns can need"
            yield Problem(f"/tasks/{number}/needs/{task.needs.index(late[0])}", detail)


def problems_of_switches(tasks: Sequence[FlowingTask]) -> Iterator[Problem]:
    """Yield the errors of the switches among the tasks of a job."""
    switches = [(n, task) for n, task in enumerate(tasks) if isinstance(task.wait, Switch)]
    if not switches:
        return
    needs = {task.name: set(task.needs) for task in tasks if not task.is_teardown}
    for number, task in switches:
        assert isinstance(task.wait, Switch), task
        pointer = f"/tasks/{number}/switch"
        if task.loop is not None:
            yield Problem(pointer, "a switch cannot be in a loop")
        for place, case in enumerate(task.wait.cases):
            for name in case.to:
                if task.name not in needs.get(name, ()):
                    detail = (
                        f"the switch {in_quotes(task.name)} can choose only tasks that need it and "
                        f"are no teardowns; {in_quotes(name)} is not one of these"
                    )
                    yield Problem(f"{pointer}/{place}/to", detail)


def problems_of_wait(wait: Wait, pointer: str) -> Iterator[Problem]:
    """Yield the errors of a wait of the task at the JSON pointer *pointer*."""
    match wait:
        case Sleep():
            yield from _problem_of_duration(wait.duration, f"{pointer}/sleep")
        case Approval():
            if has_template(wait.message) and (detail := problem_of_template(wait.message)):
                yield Problem(f"{pointer}/approval/message", detail)
            yield from _problem_of_duration(wait.timeout, f"{pointer}/approval/timeout")
            for number, subject in enumerate(wait.by):
                if not is_subject(subject):
                    detail = f"{in_quotes(subject)} is not a subject; {SUBJECT_RULE}"
                    yield Problem(f"{pointer}/approval/by/{number}", detail)
        case Switch():
            place = f"{pointer}/switch"
            if not 1 <= len(wait.cases) <= CASES_MAX:
                yield Problem(place, out_of_range(len(wait.cases), 1, CASES_MAX))
            for number, case in enumerate(wait.cases):
                if case.when:
                    yield from _problem_of_expression(case.when, f"{place}/{number}/when")
                elif number < len(wait.cases) - 1:
                    yield Problem(f"{place}/{number}", "only the last case may have no when")
        case WaitForEvent():
            place = f"{pointer}/waitForEvent"
            if has_template(wait.event):
                if detail := problem_of_template(wait.event):
                    yield Problem(f"{place}/event", detail)
            elif not is_name(wait.event):
                detail = f"{in_quotes(wait.event)} is not a name: {NAME_RULE}"
                yield Problem(f"{place}/event", detail)
            yield from _problem_of_duration(wait.timeout, f"{place}/timeout")
        case RunJob():
            size = len(wait.parameters.encode())
            if size > CALL_BYTES_MAX:
                detail = f"has {size:,} bytes as JSON; at most {CALL_BYTES_MAX:,} are allowed"
                yield Problem(f"{pointer}/runJob/parameters", detail)
            for text in templates_in(wait.parameters) if wait.parameters else ():
                if detail := problem_of_template(text):
                    yield Problem(f"{pointer}/runJob/parameters", f"{detail}; {_LITERAL}")


def problem_of_items(items: Sequence[msgspec.Raw]) -> str:
    """Return what is wrong with the items of a loop; empty if they can be used."""
    if len(items) > ITEMS_MAX:
        return too_many_items(len(items))
    for number, item in enumerate(items):
        size = len(bytes(item))
        if size > ITEM_BYTES_MAX:
            return (
                f"item {number} has {size:,} bytes as JSON; at most {ITEM_BYTES_MAX:,} are "
                "allowed: store the data elsewhere, and pass its location"
            )
    return ""


def too_many_items(count: int) -> str:
    """Return what is wrong with a loop over *count* items."""
    return f"has {count:,} items; at most {ITEMS_MAX:,} are allowed"


def _items(text: str) -> list[msgspec.Raw]:
    return msgspec.json.decode(text, type=list[msgspec.Raw])


def _problem_of_expression(text: str, pointer: str) -> Iterator[Problem]:
    if detail := problem_of_expression(text):
        yield Problem(pointer, detail)


def _problem_of_duration(duration: Duration, pointer: str) -> Iterator[Problem]:
    if not 0 <= duration <= WAIT_MAX:
        yield Problem(pointer, out_of_range(format_duration(duration), "0s", "365d"))
