"""Jobs of files that are saved or created in batches: the parts, and the errors of single jobs."""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from rota.client.cli.jobs.job_files import (
    dependencies_of,
    elements_of,
    file_of,
    full_name_of,
    name_in,
)
from rota.client.cli.jobs.job_flags import Fields
from rota.wire.documents import BATCH_SCHEDULES_MAX, ITEMS_MAX, CreatedItem, ProblemView

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no HTTP library.
    from rota.client.client import Client
    from rota.client.errors import RequestFailed


def put_in_parts(
    client: "Client", definitions: Sequence[Fields], *, is_dry: bool, views: bool
) -> Iterator[list[tuple[Fields, CreatedItem]]]:
    """Create or replace jobs, and yield them with their results, one part after the other.

    Raises:
        InvalidFile: A definition has no name; the jobs before its part are saved.
    """
    for part in parts_of(definitions, is_dry=is_dry):
        for definition in part:
            name_in(definition)
        yield list(zip(part, client.put_many(part, views=views, dry_run=is_dry), strict=True))


def parts_of(definitions: Sequence[Fields], *, is_dry: bool) -> Iterator[list[Fields]]:
    """Yield definitions in the parts that are sent together.

    A node checks the dependencies of all jobs of a request before it creates any of them: a job
    that depends on an earlier one goes into the next part, unless none is created.
    """
    part: list[Fields] = []
    names: set[str] = set()
    schedules = 0
    for definition in definitions:
        count = len(elements_of(definition, "schedules")) + ("schedule" in definition)
        is_full = len(part) == ITEMS_MAX or schedules + count > BATCH_SCHEDULES_MAX
        if part and (is_full or (not is_dry and names & dependencies_of(definition))):
            yield part
            part, schedules = [], 0
            names.clear()
        part.append(definition)
        names.add(full_name_of(definition, definition.get("name", "")))
        schedules += count
    if part:
        yield part


def failure_of_item(problem: ProblemView, definition: Fields) -> "RequestFailed":
    """Return the error of one job of a batch as if it were sent alone, with its file."""
    from rota.client.transport.call import Response, failure_of

    errors = [
        msgspec.structs.replace(each, pointer=re.sub(r"^/items/\d+", "", each.pointer))
        for each in problem.errors
    ]
    alone = msgspec.structs.replace(problem, errors=errors)
    failure = failure_of(Response(problem.status, msgspec.json.encode(alone)))
    failure.file = file_of(definition)
    return failure
