"""Decoding of a job's JSON in short steps; the number of tasks is checked first.

The decoding of 10,000 tasks in one call blocks the event loop for 50 ms or more. A thread does not
help, because the decoder holds the interpreter's lock. A long job is therefore decoded task by
task.
"""

import json
import re
from collections.abc import Generator, Iterator
from typing import TypeVar

import msgspec

from rota.core.errors import Kind, Problem, Refused, invalid
from rota.core.model.job import TASKS_MAX
from rota.wire.bodies.decoding_errors import escaped
from rota.wire.bodies.json_decoding import PROBLEMS_MAX, decode, decode_distinct, invalid_body
from rota.wire.documents import JobBody, Json, TaskBody

T = TypeVar("T")

AT_ONCE_BYTES = 64 << 10
"""A job of at most this length is decoded in one call, which takes a few milliseconds."""
_TASKS = "tasks"
_SPACE = re.compile(r"[ \t\n\r]*")
_scan = json.JSONDecoder(parse_int=str, parse_float=str, strict=False).raw_decode
"""Finds the end of an item. Numbers stay text, since Python refuses integers of 4,300 digits."""


def decoded_job(content: bytes | msgspec.Raw) -> Generator[None, None, JobBody]:
    """Return the job in JSON *content*; the generator yields after each task of a long job.

    Raises:
        Refused: As for `rota.wire.bodies.json_decoding.decode`; or code ``invalid_job``: the
            job has more than `TASKS_MAX` tasks.
    """
    if len(bytes(content)) <= AT_ONCE_BYTES:
        return decode_distinct(content, JobBody)
    fields = _fields(content)
    tasks = fields.get(_TASKS)
    if tasks is None or not _is_list(tasks):
        return decode(content, JobBody)
    items = yield from _items(tasks)
    del fields[_TASKS]
    body = decode_distinct(msgspec.json.encode(fields), JobBody)
    return msgspec.structs.replace(body, tasks=(yield from _each(items, TaskBody)))


def decoded_object(content: bytes) -> Generator[None, None, dict[str, Json]]:
    """Return JSON *content* as an object, with pauses as in `decoded_job`.

    Raises:
        Refused: *content* is not a JSON object, or has more than `TASKS_MAX` tasks.
    """
    if len(content) <= AT_ONCE_BYTES:
        return decode_distinct(content, dict[str, Json])
    found: dict[str, Json] = {}
    for name, raw in _fields(content).items():
        if name == _TASKS and _is_list(raw):
            items = yield from _items(raw)
            found[name] = yield from _each(items, object)
        else:
            found[name] = decode_distinct(raw, object, f"/{escaped(name)}")
            yield
    return found


def _fields(content: bytes | msgspec.Raw) -> dict[str, msgspec.Raw]:
    """Return the fields of a long job, each of which it has once.

    Raises:
        Refused: As for `decode_distinct`.
    """
    fields = decode(content, dict[str, msgspec.Raw])
    without_tasks = bytes(content).replace(bytes(fields.get(_TASKS, b"")) or b"[]", b"[]", 1)
    decode_distinct(without_tasks, dict[str, msgspec.Raw])
    return fields


def _is_list(raw: msgspec.Raw) -> bool:
    return bytes(raw).lstrip().startswith(b"[")


def _each(items: list[bytes], kind: type[T]) -> Generator[None, None, list[T]]:
    """Return the items of the list of tasks as a *kind* each.

    Raises:
        Refused: As for `decode`, with the errors of several items.
    """
    found: list[T] = []
    problems: list[Problem] = []
    for number, item in enumerate(items):
        try:
            found.append(decode_distinct(item, kind, f"/{_TASKS}/{number}"))
        except Refused as refusal:
            if not refusal.problems:
                raise
            problems += refusal.problems
            if len(problems) > PROBLEMS_MAX:
                break
        yield
    if problems:
        raise invalid_body(problems)
    return found


def _items(raw: msgspec.Raw) -> Generator[None, None, list[bytes]]:
    """Return the items of the JSON list *raw*.

    Raises:
        Refused: The list is malformed, or has more than `TASKS_MAX` items.
    """
    items: list[bytes] = []
    try:
        for item in _split(bytes(raw).decode()):
            if len(items) == TASKS_MAX:
                detail = f"the job has more than {TASKS_MAX:,} tasks, the limit; use several jobs"
                problem = Problem(f"/{_TASKS}", detail)
                raise invalid("invalid_job", str(problem), problem)
            items.append(item.encode())
            yield
    except RecursionError as error:
        detail = "the tasks are nested too deeply; use fewer levels"
        raise Refused(Kind.INVALID, "malformed_json", detail) from error
    except ValueError as error:  # Its text is Python's.
        detail = f"the tasks are not valid JSON in UTF-8, after {len(items):,} valid tasks"
        raise Refused(Kind.INVALID, "malformed_json", f"{detail}; correct the next one") from error
    return items


def _split(text: str) -> Iterator[str]:
    """Yield the JSON texts of the items of the list *text*.

    Raises:
        ValueError: An item is not JSON, or no comma follows it.
    """
    at = _after_space(text, text.index("[") + 1)
    while not text.startswith("]", at):
        _, end = _scan(text, at)
        yield text[at:end]
        at = _after_space(text, end)
        if text.startswith(",", at):
            at = _after_space(text, at + 1)
        elif not text.startswith("]", at):
            raise ValueError(f"a comma is missing after an item, at character {at}")


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
