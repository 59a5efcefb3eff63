"""The result of an import: job definitions, their next fire times, and the report."""

from collections.abc import Sequence
from typing import cast

import msgspec
from msgspec.structs import replace

from rota.client.definitions import Definition
from rota.client.imports.drafts import Draft, Note, Reader, Source
from rota.client.imports.job_names import names_of
from rota.core.timing.instants import Instant
from rota.core.timing.schedule import Schedule, checked, coming

FIRES_SHOWN = 3


class ImportedJob(msgspec.Struct, frozen=True):
    """A job of another scheduler.

    Attributes:
        file: The name of its source.
        line: Its line in the source, from 1.
        definition: Its definition.
        next: Its next fire times as this definition has them, in its time zone (RFC 3339).
    """

    file: str
    line: int
    definition: Definition
    next: list[str]


class Imported(msgspec.Struct, frozen=True):
    """The result of an import.

    Attributes:
        jobs: The jobs, in the order of the sources.
        report: What is lost or changed, in the order of the sources and their lines.
    """

    jobs: list[ImportedJob]
    report: list[Note]

    @property
    def is_whole(self) -> bool:
        """Whether nothing was lost."""
        return all(note.effect != "lost" for note in self.report)


def imported(
    read: Reader, sources: list[Source], *, after: Instant, namespace: str | None = None
) -> Imported:
    """Return the jobs in *sources*, with fire times after *after*.

    Args:
        read: The reader of their format.
        sources: The files.
        after: The instant after which fire times are computed.
        namespace: The namespace of jobs whose source names none; None for none.

    Raises:
        InvalidFile: A source is not valid; the error names file and line.
    """
    findings = read(sources)
    drafts = [_in_namespace(draft, namespace) for found in findings for draft in found.drafts]
    jobs = [
        ImportedJob(draft.file, draft.line, definition, next_fires(definition, after))
        for draft, name in zip(drafts, names_of(drafts), strict=True)
        for definition in [{"name": name, **draft.definition}]
    ]
    notes = [sorted(found.notes, key=lambda note: note.line) for found in findings]
    return Imported(jobs, [note for each in notes for note in each])


def _in_namespace(draft: Draft, namespace: str | None) -> Draft:
    if namespace is None:
        return draft
    definition = {"namespace": namespace, **draft.definition}
    return Draft(draft.file, draft.line, draft.name, definition)


def next_fires(definition: Definition, after: Instant) -> list[str]:
    """Return the first fire times of a job after *after*, in its time zone (RFC 3339)."""
    fires = coming(schedules_of(definition), after)
    return [fire.local for (_, fire), _ in zip(fires, range(FIRES_SHOWN), strict=False)]


def schedules_of(definition: Definition) -> Sequence[Schedule]:
    """Return the schedules of a job, in their order."""
    texts: list[object] = [definition.get("schedule"), *definition.get("schedules", [])]
    timezone: str = definition.get("timezone", "UTC")
    plain = Schedule(
        text="",
        timezone=timezone,
        seed=f"{definition.get('namespace', 'default')}/{definition.get('name', '')}",
    )
    found: list[Schedule] = []
    for text in texts:
        if isinstance(text, dict):
            fields = cast("Definition", text)
            own = replace(
                plain,
                text=fields["schedule"],
                timezone=fields.get("timezone", timezone),
                day_or=fields.get("dayOr", True),
                start_at=fields.get("startAt", ""),
                end_at=fields.get("endAt", ""),
            )
            found.append(checked(own))
        elif isinstance(text, str):
            found.append(checked(replace(plain, text=text)))
    return found
