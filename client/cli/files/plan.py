"""``rota plan`` and ``rota jobs diff``: what `apply` would change."""

import difflib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import click
import msgspec
from msgspec.structs import replace

from rota.client.cli.display.printing import Piece, Styled, out, say
from rota.client.cli.display.show import Column, Look, as_yaml, is_coloured, show_many
from rota.client.cli.documents.given_documents import (
    CALENDARS_OF_JOB,
    Given,
    apply_document,
    document_before,
    missing_documents,
)
from rota.client.cli.documents.kinds import word_of
from rota.client.cli.files.calendar_effects import CALENDAR, changed_times, preview_of
from rota.client.cli.files.given_files import (
    GivenFiles,
    Pruning,
    prune_options,
    pruning_of,
    read_files,
)
from rota.client.cli.files.planned_fires import calendars_with, new_fires
from rota.client.cli.human import absolute, now
from rota.client.cli.inputs.files import files_option
from rota.client.cli.inputs.options import (
    connect,
    examples,
    format_option,
    namespace_option,
    url_option,
)
from rota.client.cli.jobs.job_batches import put_in_parts
from rota.client.cli.jobs.job_files import (
    dependencies_of,
    elements_of,
    file_of,
    full_name_of,
    job_before,
    naming_file,
)
from rota.client.cli.jobs.job_flags import Fields
from rota.client.cli.jobs.job_sets import awaits
from rota.core.timing.calendars import Calendars
from rota.wire.documents import CreatedItem, JobBody, JobView

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no HTTP library.
    from rota.client.client import Client

EX_DIFFERENT = 8
COLOURS = {"create": "green", "replace": "yellow", "delete": "red"}
DONE = {"created": "create", "replaced": "replace", "unchanged": "unchanged"}
"""What is done with a document, by the word for it when it is done."""
DETAILS_MAX = 1_000
"""The most new and changed jobs of a plan with their difference and their next fire times. Each
takes two more requests; the others are checked in batches, as unchanged ones are."""
NO_DETAILS = f"no details: the plan shows those of {DETAILS_MAX:,} changes"
WAITS = "checked only after the documents before it are written"


class PlannedView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What `apply` would do with a job or a document.

    Attributes:
        change: ``create``, ``replace``, ``delete`` or ``unchanged``; ``affect`` for a job whose
            fire times change with calendars of the files.
        kind: ``job``, or the word for a kind of documents.
        name: Its name, of a job with its namespace.
        file: The file that has it; empty for a job to delete.
        version: Its present version; 0 if it does not exist.
        diff: The lines of a unified diff of the definitions.
        next_fire_times: The next fire times of a job, if its schedules are new.
        dropped: The first fire times of an affected job that go.
        added: The first fire times of it that come.
        note: What the plan does not show; empty for nothing.
    """

    change: str
    kind: str
    name: str
    file: str = ""
    version: int = 0
    diff: list[str] = []
    next_fire_times: list[str] = []
    dropped: list[str] = []
    added: list[str] = []
    note: str = ""


PLANNED: Look[PlannedView] = Look(
    name=lambda planned: planned.name,
    columns=(
        Column("CHANGE", lambda planned, _: planned.change),
        Column("KIND", lambda planned, _: planned.kind),
        Column("NAME", lambda planned, _: planned.name),
    ),
)


@click.command(
    "plan",
    epilog=examples(
        "rota plan -f report.yaml",
        "rota plan -f jobs/ -f types.yaml -o json",
        "rota plan -f jobs.yaml --prune -l team=core",
        "rota plan -f report.yaml || rota apply -f report.yaml",
    ),
)
@files_option
@prune_options
@namespace_option
@format_option
@url_option
def plan(
    files: tuple[str, ...],
    *,
    is_pruning: bool,
    labels: tuple[str, ...],
    namespace: str | None,
    form: str,
) -> int:
    """Show what `rota apply` would change; exit with 8 if it would change anything.

    Each job and document has a line, with the difference of the definitions as the node parses
    them, and with the next fire times of new and changed schedules. If calendars change, the jobs
    whose fire times of the next 30 days go or come follow. Nothing is changed.
    """
    pruning = pruning_of(namespace, is_pruning=is_pruning, labels=labels)
    given = read_files(files, namespace)
    pruning.check(given)
    with connect() as client:
        found = [*planned_changes(client, given), *_deleted(client, given, pruning)]
        found += _affected(client, given, found)
    if form in ("table", "wide"):
        for each in found:
            _print(each)
        out(_summary(found))
    else:
        show_many(found, PLANNED, form)
    return _status(found)


@click.command(
    "diff",
    epilog=examples(
        "rota jobs diff -f report.yaml",
        "rota jobs diff -f report.yaml || rota jobs apply -f report.yaml",
    ),
)
@files_option
@namespace_option
@url_option
def diff_files(files: tuple[str, ...], namespace: str | None) -> int:
    """Show how jobs and documents on the node differ from files; exit with 8 if they do.

    Both are shown as the node parses them, with the defaults of omitted fields. `rota plan` shows
    the fire times, too.
    """
    given = read_files(files, namespace)
    found: list[PlannedView] = []
    with connect() as client:
        for each in planned_changes(client, given):
            _print_diff(each)
            found.append(each)
    omitted = sum(each.note == NO_DETAILS for each in found)
    if omitted:
        say(f"{omitted:,} more jobs differ; the differences of {DETAILS_MAX:,} are shown")
    return _status(found)


def _status(found: Sequence[PlannedView]) -> int:
    return EX_DIFFERENT if any(each.change != "unchanged" for each in found) else 0


def planned_changes(client: "Client", given: GivenFiles) -> Iterator[PlannedView]:
    """Yield what would be done with each document and job of files."""
    present = list(client.documents("calendars"))
    calendars = calendars_with(given.documents, present)
    missing = missing_documents(client, given.documents)
    for document in given.documents:
        yield _planned_document(client, document, missing)
    documents = {(each.kind, each.name) for each in given.documents}
    new: dict[str, Fields] = {}
    new_calendars = calendars.keys() - {each.name for each in present}
    details = count()
    for part in put_in_parts(client, given.jobs, is_dry=True, views=False):
        for job, item in part:
            if item.change == "unchanged":
                planned = _brief(job, item)
            elif item.error is None and next(details) >= DETAILS_MAX:
                planned = replace(_brief(job, item), note=NO_DETAILS)
            else:
                planned = _planned_job(client, job, _New(new, documents, new_calendars, calendars))
            if planned.change == "create":
                new[planned.name] = job
            yield planned


def _brief(job: Fields, item: CreatedItem) -> PlannedView:
    """Return what would be done with a job that a node has checked in a batch."""
    change, version = DONE[item.change or ""], item.version or 0
    before = {"create": 0, "replace": version - 1}.get(change, version)
    name = full_name_of(job, job["name"])
    return PlannedView(change=change, kind="job", name=name, file=file_of(job), version=before)


def _planned_document(client: "Client", given: Given, missing: set[tuple[str, str]]) -> PlannedView:
    before = document_before(client, given)
    after = apply_document(client, given, is_dry=True, missing=missing)
    name, kind = f"{word_of(given.kind)} {given.name}", word_of(given.kind)
    version = before.version if before else 0
    return PlannedView(
        change=DONE[after.change],
        kind=kind,
        name=given.name,
        file=given.place.rpartition(",")[0],
        version=version,
        diff=_difference(name, version, before.definition if before else None, after.definition),
    )


class _New(NamedTuple):
    """What the node would have when a job is written.

    Attributes:
        jobs: The new jobs that are written before it, by full name.
        documents: Kind and name of the documents that are written before it.
        new_calendars: The names of the calendars among these that the node does not have.
        calendars: All calendars, as they would be.
    """

    jobs: Mapping[str, Fields]
    documents: set[tuple[str, str]]
    new_calendars: Set[str]
    calendars: Calendars


def _planned_job(client: "Client", definition: Fields, new: _New) -> PlannedView:
    """Return what would be done with a job, if the node had what is *new*."""
    from rota.client.errors import RequestFailed

    before = job_before(client, definition)
    version = before.version if before else 0
    name = full_name_of(definition, definition["name"])
    try:
        with naming_file(definition):
            after = _as_saved(client, definition, new)
    except RequestFailed as error:
        if not awaits(error, definition, new.jobs, new.documents):
            raise
        return PlannedView(
            change="replace" if before else "create",
            kind="job",
            name=name,
            file=file_of(definition),
            version=version,
            note=WAITS,
        )
    # A job that was checked without its new names may look like the present one.
    is_other = before is not None and before.definition != after.definition
    return PlannedView(
        change="replace" if is_other else _change(version, after.version),
        kind="job",
        name=name,
        file=file_of(definition),
        version=version,
        diff=_difference(name, version, before.definition if before else None, after.definition),
        next_fire_times=new_fires(before, after, new.calendars, now()),
    )


def _deleted(client: "Client", given: GivenFiles, pruning: Pruning) -> Iterator[PlannedView]:
    for job in pruning.surplus(client, given):
        client.delete_job(job.job_id, dry_run=True)
        name = f"{job.namespace}/{job.name}"
        yield PlannedView(change="delete", kind="job", name=name, version=job.version)


def _affected(
    client: "Client", given: GivenFiles, planned: Sequence[PlannedView]
) -> Iterator[PlannedView]:
    """Yield the jobs on the node whose fire times change with the calendars of files."""
    changed = {
        each.name
        for each in planned
        if each.kind == CALENDAR and each.change in ("create", "replace")
    }
    if not changed:
        return
    preview = preview_of(client, given.documents, changed)
    for job in preview.items:
        yield PlannedView(
            change="affect",
            kind="job",
            name=job.job,
            dropped=job.dropped,
            added=job.added,
            note="there may be more" if job.truncated else "",
        )
    if preview.truncated:
        say("more jobs may be affected; not all were examined")


def _change(before: int, after: int) -> str:
    return "unchanged" if before == after else "replace" if before else "create"


def _as_saved(client: "Client", definition: Fields, new: _New) -> JobView:
    """Return the job as the node would save it, if it had the new jobs and calendars."""
    left_out, known = _without_new(definition, new)
    saved = client.put_job({**definition, **known}, dry_run=True)
    if not left_out:
        return saved
    fields = {**(saved.definition or {}), **left_out}
    order = [each.encode_name for each in msgspec.structs.fields(JobBody)]
    ordered = {name: fields[name] for name in order if name in fields}
    return replace(saved, definition=ordered)


def _without_new(definition: Fields, new: _New) -> tuple[Fields, Fields]:
    """Return the fields of a job that name what is new, and the same fields without these names."""
    whole: Fields = {}
    jobs = new.jobs.keys() & dependencies_of(definition)
    if jobs:
        names = [full_name_of(definition, each) for each in elements_of(definition, "dependencies")]
        whole["dependencies"] = names
    for field in CALENDARS_OF_JOB:
        named = elements_of(definition, field)
        if not new.new_calendars.isdisjoint(map(str, named)):
            whole[field] = named
    missing = jobs | new.new_calendars
    kept = {
        field: [each for each in names if each not in missing] for field, names in whole.items()
    }
    return whole, kept


def _difference(name: str, version: int, before: object, after: object) -> list[str]:
    there = f"{name} (version {version})" if version else f"{name} (not there)"
    old, new = ([] if each is None else as_yaml(each).splitlines() for each in (before, after))
    return [*difflib.unified_diff(old, new, there, f"{name} (as given)", lineterm="")]


def _print(planned: PlannedView) -> None:
    word = f"{planned.change:9}"
    note = f"  ({planned.note})" if planned.note else ""
    shown = Styled(word, colour=COLOURS.get(planned.change), is_dim=planned.change not in COLOURS)
    out(shown if is_coloured() else word, f"  {planned.kind} {planned.name}{note}")
    if planned.next_fire_times:
        out(f"           next {', '.join(map(absolute, planned.next_fire_times))} UTC")
    for line in changed_times(planned.dropped, planned.added):
        out(f"           {line}")
    if planned.change == "replace":
        _print_diff(planned)


def _print_diff(planned: PlannedView) -> None:
    lines: Sequence[Piece] = planned.diff
    for line in map(_coloured, count(), planned.diff) if is_coloured() else lines:
        out(line)


def _coloured(number: int, line: str) -> Styled:
    if number < 2:
        return Styled(line, is_bold=True)
    return Styled(line, colour={"-": "red", "+": "green", "@": "cyan"}.get(line[:1]))


def _summary(found: Sequence[PlannedView]) -> str:
    counts = Counter(each.change for each in found)
    changes = [f"{counts[word]} to {word}" for word in COLOURS]
    return ", ".join([*changes, f"{counts['unchanged']} unchanged"])
