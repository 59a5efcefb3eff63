"""Jobs in files: their definitions, in an order in which a node accepts them."""

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from graphlib import CycleError, TopologicalSorter
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, cast

import click

from rota.client.cli.inputs.files import STANDARD_INPUT, Item, items_in
from rota.client.cli.jobs.job_flags import Fields
from rota.core.near_names import near_names
from rota.wire.documents import JobView

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no HTTP library.
    from rota.client.client import Client


class FileFields(Fields):
    """A job's document that comes from a file.

    Attributes:
        file: The file, as the user named it.
    """

    file = ""


def at_place(place: str, fields: Fields) -> FileFields:
    """Return a definition that errors find at *place*."""
    placed = FileFields(fields)
    placed.file = place
    return placed


def definitions_in(files: Iterable[str], namespace: str | None) -> list[Fields]:
    """Return the jobs that *files* define, in *namespace* unless they name their own.

    A job comes after those that it depends on, since a node refuses unknown dependencies.

    Raises:
        click.UsageError: A file has a document of another kind.
    """
    definitions: list[Fields] = []
    for item in items_in(files):
        if is_document(item.fields):
            named = STANDARD_INPUT if item.file == "standard input" else item.file
            raise click.UsageError(
                f"{item.file} has a document of the kind {item.fields['kind']!r}, not a job; apply "
                f"it with rota apply -f {named}"
            )
        definitions.append(job_of(item, namespace))
    return dependencies_first(definitions)


def is_document(fields: Fields) -> bool:
    """Return True if *fields* are those of a shared document, which has a kind, unlike a job."""
    return "kind" in fields and not is_shown(fields)


def job_of(item: Item, namespace: str | None) -> FileFields:
    """Return the job that *item* defines, in *namespace* unless it names its own.

    A relative ``cwd`` begins in the folder of its file, on standard input in the current folder.
    Of a job as `rota jobs show` prints it, the definition is taken.
    """
    from rota.client.definitions import with_whole_paths

    given = _definition_of(item.fields) if is_shown(item.fields) else item.fields
    definition = FileFields(in_namespace(namespace, with_whole_paths(given, item.folder)))
    definition.file = item.file
    return definition


def is_shown(fields: Fields) -> bool:
    """Return True if *fields* are those of a job as a node shows it."""
    return {"jobId", "status", "namespace"} <= fields.keys()


def _definition_of(shown: Fields) -> Fields:
    definition = shown.get("definition")
    if not isinstance(definition, dict):
        raise click.UsageError(
            f"the job {shown.get('name')!r} is from a list, which has no definitions; use "
            f"rota jobs show {shown.get('name')} -o yaml"
        )
    return {"namespace": shown["namespace"], **cast("Fields", definition)}


@contextmanager
def naming_file(definition: Fields) -> Generator[None]:
    """Add the file of *definition* to an error of the body of the context."""
    from rota.client.errors import RequestFailed

    try:
        yield
    except RequestFailed as error:
        error.file = file_of(definition)
        raise


def file_of(definition: Fields) -> str:
    """Return the file that *definition* comes from; empty for none."""
    return definition.file if isinstance(definition, FileFields) else ""


def dependencies_first(definitions: list[Fields]) -> list[Fields]:
    """Return *definitions* in their order, each after its dependencies unless they form a cycle."""
    numbers = {
        full_name_of(each, each.get("name", "")): number for number, each in enumerate(definitions)
    }
    sorter = TopologicalSorter(
        {
            number: [numbers[name] for name in dependencies_of(each) if name in numbers]
            for number, each in enumerate(definitions)
        }
    )
    try:
        sorter.prepare()
    except CycleError:
        return definitions
    ordered: list[Fields] = []
    ready = list(sorter.get_ready())
    heapify(ready)
    while ready:
        number = heappop(ready)
        ordered.append(definitions[number])
        sorter.done(number)
        for each in sorter.get_ready():
            heappush(ready, each)
    return ordered


def in_namespace(namespace: str | None, definition: Fields) -> Fields:
    """Return a definition, in *namespace* unless it names its own."""
    return definition if namespace is None else {"namespace": namespace, **definition}


def dependencies_of(definition: Fields) -> set[str]:
    """Return the full names of the jobs that a definition depends on."""
    return {full_name_of(definition, each) for each in elements_of(definition, "dependencies")}


def elements_of(definition: Fields, field: str) -> list[object]:
    """Return the elements of a list of a definition; empty if the field is missing or no list."""
    found: Any = definition.get(field)  # Any: as in `Fields`
    return cast("list[object]", found) if isinstance(found, list) else []


def types_in(definition: Fields) -> set[str]:
    """Return the types of a job and of its tasks: job types, or types of tasks."""
    found = [definition, *elements_of(definition, "tasks")]
    return {str(cast("Fields", each).get("type")) for each in found if isinstance(each, dict)}


def full_name_of(definition: Fields, name: object) -> str:
    """Return the full name of *name* in a definition; the default is the definition's namespace."""
    text = str(name)
    return text if "/" in text else f"{definition.get('namespace', 'default')}/{text}"


def name_in(definition: Fields) -> object:
    """Return the name of the job *definition*.

    Raises:
        InvalidFile: The definition has no name.
    """
    from rota.client.definitions import InvalidFile

    name: object = definition.get("name", "")
    if not name:
        near = next((each for each in definition if near_names(each, ["name"])), None)
        remedy = "give it one, such as `name: report`" if near is None else "did you mean 'name'?"
        field = "" if near is None else f", but a field {near!r}"
        raise InvalidFile(f"one of the jobs has no name{field}; {remedy}")
    return name


def job_before(client: "Client", definition: Fields) -> JobView | None:
    """Return the job that a definition replaces; None if it does not exist.

    Raises:
        InvalidFile: The definition has no name.
    """
    from rota.client.errors import NotFound

    name = name_in(definition)
    try:
        return client.job(full_name_of(definition, name))
    except NotFound:
        return None
