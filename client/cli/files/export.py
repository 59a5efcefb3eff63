"""``rota export``: jobs, job types, calendars and namespaces as files that `rota apply` takes."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files as files_of
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from rota.client.cli.display.printing import out, say
from rota.client.cli.display.show import as_yaml
from rota.client.cli.documents.given_documents import CALENDARS_IN, CALENDARS_OF_JOB, calendars_in
from rota.client.cli.documents.kinds import word_of
from rota.client.cli.human import counted
from rota.client.cli.inputs.files import SUFFIXES
from rota.client.cli.inputs.options import (
    connect,
    everywhere_option,
    examples,
    namespace_option,
    url_option,
)
from rota.client.cli.jobs.job_files import types_in
from rota.client.cli.jobs.job_flags import Fields
from rota.client.cli.jobs.job_selection import DEFAULT_NAMESPACE
from rota.wire.documents import DocumentView, JobView

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no HTTP library.
    from rota.client.client import Client

SCHEMA = ".job.schema.json"
"""The JSON Schema of jobs, for editors; the file is hidden, so that it is none of definitions."""
SCHEMA_LINE = f"# yaml-language-server: $schema={SCHEMA}\n"


class Exported(NamedTuple):
    """A job or a document.

    Attributes:
        kind: ``job``, or the plural of the kind of documents.
        file: The name of its file. Files of jobs have a ``+``, which no name has.
        fields: What the file has.
    """

    kind: str
    file: str
    fields: Fields


@click.command(
    "export",
    epilog=examples(
        "rota export -n billing > billing.yaml",
        "rota export -A --output exported",
        "rota export | rota plan -f -",
    ),
)
@everywhere_option
@click.option(
    "--output",
    "target",
    metavar="FOLDER",
    help="Folder for a file for each job, which is made if needed.  [default: print all]",
)
@namespace_option
@url_option
def export(*, is_everywhere: bool, target: str | None, namespace: str | None) -> None:
    """Print the jobs of a namespace as YAML that `rota apply -f` takes, or write it to files.

    The job types and calendars of these jobs and the document of the namespace come first; with -A,
    those of all namespaces. Applied again, nothing changes. Jobs whose fire times have all passed,
    such as one-off jobs, are left out. Secrets and access are not exported.
    """
    within = None if is_everywhere else namespace or DEFAULT_NAMESPACE
    with connect() as client:
        found = [*_exported(client, within)]
    if target is None:
        out("---\n".join(as_yaml(each.fields) for each in found), end="")
    else:
        _write(found, Path(target))


def _exported(client: "Client", namespace: str | None) -> Iterator[Exported]:
    """Yield the documents, then the jobs, of *namespace*; None for all."""
    jobs: list[Exported] = []
    types, calendars = set[str](), set[str]()
    passed = 0
    for listed in client.jobs(namespace=namespace):
        job = client.job(listed.job_id)
        if job.definition is None:
            say(f"warning: {job.namespace}/{job.name} is left out: {job.broken}")
        elif _has_passed(job):
            passed += 1
        else:
            types |= types_in(job.definition)
            calendars |= calendars_in(job.definition, CALENDARS_OF_JOB)
            fields = {"name": job.name, "namespace": job.namespace, **job.definition}
            jobs.append(Exported("job", f"{job.namespace}+{job.name}.yaml", fields))
    calendars = _with_named({each.name: each for each in client.documents("calendars")}, calendars)
    wanted = (("types", types), ("calendars", calendars), ("namespaces", {namespace}))
    for kind, names in wanted:
        for document in client.documents(kind):
            if namespace is None or document.name in names:
                fields = {
                    "kind": word_of(kind),
                    "name": document.name,
                    "definition": document.definition,
                }
                yield Exported(kind, f"{kind}.yaml", fields)
    yield from jobs
    if passed:
        say(f"{counted(passed, 'job', 'jobs')} left out whose fire times have all passed")


def _with_named(found: Mapping[str, DocumentView], names: set[str]) -> set[str]:
    """Return *names* of calendars with those that they name, directly or through others."""
    waiting, all_names = list(names), set(names)
    while waiting:
        calendar = found.get(waiting.pop())
        named = calendars_in(calendar.definition, CALENDARS_IN) if calendar else set[str]()
        waiting += named - all_names
        all_names |= named
    return all_names


def _has_passed(job: JobView) -> bool:
    """Return True if a job fires at instants only, and all of them have passed."""
    instants = [each.schedule.lower().startswith("@at") for each in job.schedules]
    return bool(instants) and all(instants) and not (job.next_fire_at or job.dependencies)


def _write(found: Sequence[Exported], folder: Path) -> None:
    """Write a file for each job, one for each kind of documents, and the schema for editors."""
    folder.mkdir(parents=True, exist_ok=True)
    schema = files_of("rota.wire").joinpath("job.schema.json").read_text(encoding="utf-8")
    (folder / SCHEMA).write_text(schema, encoding="utf-8")
    written: set[str] = set()
    for file, items in groupby(found, lambda each: each.file):
        text = "---\n".join(as_yaml(each.fields) for each in items)
        begin = SCHEMA_LINE if "+" in file else ""
        (folder / file).write_text(begin + text, encoding="utf-8")
        written.add(file)
    counts = Counter(word_of(each.kind) for each in found)
    parts = [counted(number, kind, f"{kind}s") for kind, number in counts.items()]
    say(f"wrote {', '.join(parts) or 'nothing'} to {folder}")
    _say_others(folder, written)


def _say_others(folder: Path, written: Iterable[str]) -> None:
    names = {each.name for each in folder.iterdir() if each.suffix in SUFFIXES}
    others = sorted(name for name in names - {*written} if not name.startswith("."))
    if others:
        say(f"warning: {folder} has other files, which this export has not: {', '.join(others)}")
