"""``rota validate``: files of jobs and documents, checked by the rules of a node without a node.

The form of all fields, their values and schedules are checked as a node does. What depends on the
cluster is not: other jobs, secrets, job types and namespaces that no file has, policies and quotas.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import click
import msgspec

from rota.client.cli.display.printing import out, say
from rota.client.cli.display.show import Column, Look, show_many
from rota.client.cli.documents.given_documents import Given, circles_of, document_of
from rota.client.cli.documents.kinds import KINDS, word_of
from rota.client.cli.human import counted
from rota.client.cli.inputs.files import Item, expanded, files_option, items_of, text_of
from rota.client.cli.inputs.options import examples, format_option, namespace_option
from rota.client.cli.jobs.job_files import full_name_of, is_document, is_shown, job_of
from rota.client.cli.jobs.job_flags import Fields
from rota.core.errors import Problem, Refused
from rota.core.model.ids import NAME_RULE, is_name
from rota.core.model.work_kinds import KINDS as TASK_TYPES
from rota.wire.documents import CalendarBody, JobBody, JobTypeBody

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no parser of YAML.
    from rota.client.definitions import Lines, ValuePath

EX_INVALID = 9
Types = dict[str, Fields]
"""The definitions of the job types in the files, by name."""


class FileProblem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One error in a file.

    Attributes:
        file: The file.
        document: The number of the document in it, from 1; 0 if the file cannot be parsed.
        line: The line of the value, from 1; 0 if it is unknown.
        pointer: The JSON pointer of the value in the document.
        detail: The error, with the value and a description of valid values.
    """

    file: str
    document: int = 0
    line: int = 0
    pointer: str = ""
    detail: str


PROBLEM: Look[FileProblem] = Look(
    name=lambda found: f"{found.file}:{found.line}",
    columns=(
        Column("FILE", lambda found, _: found.file),
        Column("DOCUMENT", lambda found, _: str(found.document or "")),
        Column("LINE", lambda found, _: str(found.line or "")),
        Column("FIELD", lambda found, _: found.pointer),
        Column("ERROR", lambda found, _: found.detail),
    ),
)


@click.command(
    "validate",
    epilog=examples(
        "rota validate -f report.yaml",
        "rota validate -f jobs/ -f types.yaml",
        "rota validate -f - < report.yaml",
        "rota validate -f jobs/ -o json",
    ),
)
@files_option
@namespace_option
@format_option
def validate(files: tuple[str, ...], *, namespace: str | None, form: str) -> int:
    """Check files of jobs and documents without a node; exit with 9 if one is invalid.

    Each error is a line with the file, the line, the field, and what to change. The rules are those
    of a node of this version. What depends on the cluster, such as secrets and policies, is checked
    by `rota plan` and `rota apply --dry-run`.
    """
    checked = _Checked(namespace)
    for file in expanded(files):
        checked.read(file, text_of)
    problems = checked.problems()
    if form not in ("table", "wide"):
        show_many(problems, PROBLEM, form)
    else:
        for each in problems:
            out(_line(each))
    read = f"{counted(checked.count, 'document', 'documents')} in " + counted(
        checked.file_count, "file", "files"
    )
    say(f"{read}: {counted(len(problems), 'error', 'errors')}" if problems else f"{read}: valid")
    return EX_INVALID if problems else 0


def _line(found: FileProblem) -> str:
    place = f"{found.file}:{found.line}" if found.line else found.file
    return (
        f"{place}: {found.pointer}: {found.detail}"
        if found.pointer
        else (f"{place}: {found.detail}")
    )


def problems_in(text: str, name: str, namespace: str | None) -> list[FileProblem]:
    """Return the errors of jobs and documents in *text*, which errors call *name*."""
    checked = _Checked(namespace)
    checked.read(name, lambda _: text)
    return checked.problems()


class _Checked:
    """The items of files, and their errors.

    Args:
        namespace: The namespace of jobs without one.

    Attributes:
        count: The number of items.
        file_count: The number of files.
    """

    def __init__(self, namespace: str | None) -> None:
        self.count = 0
        self.file_count = 0
        self._namespace = namespace
        self._items: list[tuple[Item, _Places]] = []
        self._unread: list[FileProblem] = []

    def read(self, file: str, text_of: Callable[[str], str]) -> None:
        """Read a file with *text_of*; one that cannot be parsed is an error."""
        from rota.client.definitions import InvalidFile, documents_with_lines

        self.file_count += 1
        try:
            text = text_of(file)
            items = list(items_of(file, text))
            lines = documents_with_lines(text, file)
        except InvalidFile as error:
            self._unread.append(_unread(file, str(error)))
            return
        self.count += len(items)
        places = [each for value, found in lines for each in _places(value, found)]
        self._items += zip(items, places, strict=True)

    def problems(self) -> list[FileProblem]:
        """Return all errors: of files that cannot be parsed, then of items in their order."""
        types: Types = {
            str(item.fields.get("name")): cast("Fields", item.fields["definition"])
            for item, _ in self._items
            if is_document(item.fields)
            and word_of(str(item.fields["kind"])) == "type"
            and isinstance(item.fields.get("definition"), dict)
        }
        first: dict[str, str] = {}
        found = list(self._unread)
        circles = circles_of(_documents_in(item for item, _ in self._items))
        for item, places in self._items:
            problems = [*_problems_of(item, self._namespace, types)]
            if is_document(item.fields) and word_of(str(item.fields["kind"])) == "calendar":
                circle = circles.get(str(item.fields.get("name")))
                problems += [Problem("/definition", circle)] if circle else []
            problems += _second(item, self._namespace, places, first)
            found += (
                FileProblem(
                    file=item.file,
                    document=item.number,
                    line=places.line_of(each.pointer),
                    pointer=each.pointer,
                    detail=each.detail,
                )
                for each in problems
            )
        return found


def _documents_in(items: Iterable[Item]) -> Iterator[Given]:
    """Yield the documents among *items*, without those that are malformed."""
    from rota.client.definitions import InvalidFile

    for item in items:
        with suppress(InvalidFile):
            if is_document(item.fields):
                yield document_of(item)


class _Places:
    """The lines of the values of an item.

    Args:
        lines: The lines of the values of its document.
        path: The path of the item in the document.
    """

    def __init__(self, lines: "Lines", path: "ValuePath") -> None:
        self._lines = lines
        self._path = path

    def line_of(self, pointer: str) -> int:
        """Return the line of the value at *pointer*, or else of the value around it."""
        path = self._path
        for step in pointer.split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            longer = next(
                (
                    each
                    for each in ((*path, name), *([(*path, int(name))] if name.isdecimal() else ()))
                    if each in self._lines
                ),
                None,
            )
            if longer is None:
                break
            path = longer
        return self._lines[path]


def _places(value: object, lines: "Lines") -> list[_Places]:
    """Return the places of the items of a document: itself, or each item of a list."""
    if isinstance(value, list):
        return [_Places(lines, (number,)) for number in range(len(value))]  # pyright: ignore[reportUnknownArgumentType]
    return [_Places(lines, ())]


def _unread(file: str, text: str) -> FileProblem:
    found = re.match(r"(?P<file>[^\n]*?):(?:(?P<line>\d+):)? ", text)
    if found is None:
        return FileProblem(file=file, detail=text)
    line = int(found["line"] or 0)
    return FileProblem(file=found["file"], line=line, detail=text[found.end() :])


def _second(
    item: Item, namespace: str | None, places: _Places, first: dict[str, str]
) -> Iterator[Problem]:
    """Yield the error of an item whose name another one before it has; *first* has their places."""
    name = item.fields.get("name")
    if not isinstance(name, str) or not name:
        return
    if is_document(item.fields):
        full = f"{word_of(str(item.fields['kind']))} {name}"
    else:
        job = job_of(item, namespace)
        full = f"job {full_name_of(job, name)}"
    if full in first:
        yield Problem("/name", f"there is a {full} already, in {first[full]}; rename or remove one")
    first.setdefault(full, f"{item.file}:{places.line_of('/name')}")


def _problems_of(item: Item, namespace: str | None, types: Types) -> Iterable[Problem]:
    """Return the errors of a job or a document by itself."""
    from rota.client.definitions import InvalidFile

    try:
        if is_document(item.fields):
            return _problems_of_document(item)
        job = job_of(item, namespace)
        found = _problems_of_job(job, types)
    except InvalidFile as error:
        return [Problem("", str(error).removeprefix(f"{item.place}: "))]
    except click.UsageError as error:
        return [Problem("", error.message)]
    inside = "/definition" if is_shown(item.fields) else ""
    return [Problem(f"{inside}{each.pointer}", each.detail) for each in found]


def _problems_of_job(job: Fields, types: Types) -> Sequence[Problem]:
    from rota.wire.bodies.job_bodies import job_spec
    from rota.wire.bodies.job_templates import WORK, with_type
    from rota.wire.bodies.json_decoding import decode, decode_distinct

    named = job.get("type")
    if not job.get("name") and not named:
        others = _problems_of_job({**job, "name": "unnamed"}, types)
        # A misspelt "name" is the reason; what else is wrong does not depend on the name.
        return [
            *others,
            Problem("/name", "the job has no name; give it one, such as `name: report`"),
        ]
    try:
        body = decode_distinct(_json(job), JobBody)
        if not body.name:
            # A node mints the name of a one-off job of a type.
            body = msgspec.structs.replace(body, name="unnamed")
        if isinstance(named, str) and named in types:
            body = with_type(body, decode(_json(types[named]), JobTypeBody))
        elif named not in TASK_TYPES and not (WORK - {"type"}).isdisjoint(job):
            # A job type that the cluster has gives what its own work lacks.
            body = msgspec.structs.replace(body, type=None)
        job_spec(body)
    except Refused as refusal:
        return refusal.problems or [Problem("", refusal.detail)]
    return []


def _problems_of_document(item: Item) -> Sequence[Problem]:
    from rota.wire.bodies.calendar_bodies import problems_of_calendar
    from rota.wire.bodies.job_templates import problems_of_type
    from rota.wire.bodies.json_decoding import decode_distinct

    given = document_of(item)
    if not is_name(given.name):
        return [Problem("/name", f"{given.name!r} is not a name: {NAME_RULE}")]
    found: Sequence[Problem]
    try:
        body: Any = decode_distinct(_json(given.definition), KINDS[given.kind].body)
        if isinstance(body, JobTypeBody):
            found = problems_of_type(body)
        elif isinstance(body, CalendarBody):
            found = list(problems_of_calendar(body))
        else:
            found = []
    except Refused as refusal:
        found = refusal.problems
    return [Problem(f"/definition{each.pointer}", each.detail) for each in found]


def _json(value: object) -> bytes:
    # msgspec refuses integers of more than 64 bits; a node names their field.
    return json.dumps(value).encode()
