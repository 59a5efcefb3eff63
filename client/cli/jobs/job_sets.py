"""Sets of jobs that are created or replaced as a whole, checked together."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec

from rota.client.cli.display.printing import say
from rota.client.cli.display.show import Counter
from rota.client.cli.display.table_columns import AppliedView
from rota.client.cli.human import counted
from rota.client.cli.jobs.job_batches import failure_of_item, put_in_parts
from rota.client.cli.jobs.job_files import elements_of, full_name_of, types_in
from rota.client.cli.jobs.job_flags import Fields
from rota.wire.documents import CreatedItem, JobView

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no HTTP library.
    from rota.client.client import Client
    from rota.client.errors import RequestFailed


def check_all(
    client: "Client",
    definitions: Sequence[Fields],
    *,
    written_before: Collection[tuple[str, str]] = (),
    views: bool = False,
) -> list[AppliedView]:
    """Check the jobs *definitions*; return them as they would be saved if *views*, else nothing.

    Args:
        client: The client.
        definitions: The jobs.
        written_before: Kind and name of the documents that will be written before them. A job that
            lacks only one of these, or a job before it, cannot be checked yet.
        views: Whether the jobs are returned, which is more work for the node.

    Raises:
        RequestFailed: A job is refused. The errors of all but the last invalid job are printed.
    """
    from rota.client.errors import Invalid

    checked: list[AppliedView] = []
    refusals: list[tuple[Fields, Invalid]] = []
    names: set[str] = set()
    with Counter("checked", len(definitions)) as counter:
        for part in put_in_parts(client, definitions, is_dry=True, views=views):
            checked += _applied(part)
            for definition, item in part:
                error = item.error and failure_of_item(item.error, definition)
                # None of the jobs and documents before this one is created.
                if error and awaits(error, definition, names, written_before):
                    what = "needs what would be created before it"
                    say(f"job {definition.get('name')!r} is not checked: it {what}")
                elif isinstance(error, Invalid):
                    refusals.append((definition, error))
                elif error:
                    _raise([(definition, error)], is_one=len(definitions) == 1)
                names.add(full_name_of(definition, definition.get("name", "")))
            counter.add(len(part))
    _raise(refusals, is_one=len(definitions) == 1)
    return checked


def apply_all(client: "Client", definitions: Sequence[Fields]) -> Iterator[list[AppliedView]]:
    """Create or replace the jobs *definitions*, and yield them with their changes, in parts.

    Raises:
        RequestFailed: A job is refused; those before it are saved, and others of its part.
    """
    count = 0
    with Counter("applied", len(definitions)) as counter:
        for part in put_in_parts(client, definitions, is_dry=False, views=True):
            applied = list(_applied(part))
            count += len(applied)
            yield applied
            for definition, item in part:
                if item.error is not None:
                    if count:
                        say(f"{counted(count, 'job is', 'jobs are')} applied, but:")
                    error = failure_of_item(item.error, definition)
                    _raise([(definition, error)], is_one=len(definitions) == 1)
            counter.add(len(part))


def _raise(refusals: Sequence[tuple[Fields, "RequestFailed"]], *, is_one: bool) -> None:
    """Raise the last of *refusals*, if there are any, and print the others."""
    from rota.client.cli.failures import report

    for number, (definition, error) in enumerate(refusals, 1):
        if not is_one:
            say(f"job {definition.get('name')!r} is refused:")
        if number == len(refusals):
            raise error
        report(error)


def awaits(
    error: "RequestFailed",
    definition: Fields,
    jobs: Collection[str],
    documents: Collection[tuple[str, str]],
) -> bool:
    """Return True if *definition* is refused only because *jobs* or *documents* do not exist yet.

    Args:
        error: The refusal.
        definition: The job.
        jobs: The full names of the jobs that will be written before it.
        documents: Kind and name of the documents that will be written before it.
    """
    if error.code == "unknown_type":
        return any(("types", name) in documents for name in types_in(definition))
    if error.code == "unknown_calendar":
        places = [each.pointer.split("/")[1:] for each in error.errors]
        missing = [elements_of(definition, field)[int(number)] for field, number in places]
        return all(("calendars", str(name)) in documents for name in missing)
    if error.code == "unknown_namespace":
        return ("namespaces", str(definition.get("namespace", "default"))) in documents
    return all(name in jobs for name in _missing_jobs(definition, error))


def _missing_jobs(definition: Fields, error: "RequestFailed") -> set[str]:
    """Return the names of the jobs whose absence is the only error.

    Other errors give the empty name, which no job has.
    """
    named: Any = definition.get("dependencies")  # Any: as in `Fields`
    if error.code != "unknown_dependency" or not isinstance(named, list):
        return {""}
    numbers = [int(each.pointer.rpartition("/")[2]) for each in error.errors]
    return {full_name_of(definition, cast("list[object]", named)[number]) for number in numbers}


def check_names(definitions: Iterable[Fields]) -> None:
    """Check that no two definitions have the same name.

    Raises:
        InvalidFile: Two definitions have the same name.
    """
    from rota.client.definitions import InvalidFile

    seen: set[str] = set()
    for definition in definitions:
        name = full_name_of(definition, definition.get("name", ""))
        if name in seen:
            raise InvalidFile(f"two of the jobs have the name {name}; rename or remove one")
        seen.add(name)


def names_of(definitions: Iterable[Fields]) -> set[str]:
    """Return the full names of jobs."""
    return {full_name_of(each, each.get("name", "")) for each in definitions}


def as_deleted(job: JobView) -> AppliedView:
    """Return *job* as deleted."""
    return AppliedView(change="deleted", **msgspec.structs.asdict(job))


def _applied(part: Sequence[tuple[Fields, CreatedItem]]) -> Iterator[AppliedView]:
    for _, item in part:
        if item.view is not None:
            yield AppliedView(change=item.change or "", **msgspec.structs.asdict(item.view))
