"""The jobs and documents of files as a whole, and the jobs that they replace by their labels."""

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from rota.client.cli.documents.given_documents import Given, document_of, in_order
from rota.client.cli.inputs.files import Item, items_in
from rota.client.cli.jobs.job_files import dependencies_first, is_document, job_of
from rota.client.cli.jobs.job_flags import Fields, pair_of
from rota.client.cli.jobs.job_selection import DEFAULT_NAMESPACE
from rota.client.cli.jobs.job_sets import check_names, names_of
from rota.wire.documents import JobView

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no HTTP library.
    from rota.client.client import Client

F = TypeVar("F", bound=Callable[..., Any])  # Any: options apply to any command


@dataclass(frozen=True)
class GivenFiles:
    """What files contain.

    Attributes:
        documents: The shared documents, in the order in which they are written, before the jobs.
        jobs: The jobs, each after those that it depends on.
    """

    documents: Sequence[Given]
    jobs: Sequence[Fields]


def read_files(files: Iterable[str], namespace: str | None) -> GivenFiles:
    """Return the content of *files*; jobs are in *namespace* unless they name their own.

    The garbage collector is off meanwhile: all that is read stays, and the collector, which would
    traverse it again and again, would take longer than the reading.

    Raises:
        InvalidFile: A file cannot be parsed, a document is malformed, or a name occurs twice.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        return given_in(items_in(files), namespace)
    finally:
        if was_on:
            gc.enable()


def given_in(found: Iterable[Item], namespace: str | None) -> GivenFiles:
    """Return what the items *found* are; jobs are in *namespace* unless they name their own.

    Raises:
        InvalidFile: A document is malformed, or a name occurs twice.
    """
    items = [*found]
    jobs: list[Fields] = [job_of(each, namespace) for each in items if not is_document(each.fields)]
    documents = [document_of(each) for each in items if is_document(each.fields)]
    check_names(jobs)
    return GivenFiles(in_order(documents), dependencies_first(jobs))


@dataclass(frozen=True)
class Pruning:
    """The jobs that `--prune` deletes: those with all labels that no file has.

    Attributes:
        labels: The labels; empty without `--prune`.
        namespace: A namespace that is searched beside those of the files; None for none.
    """

    labels: dict[str, str]
    namespace: str | None

    def check(self, given: GivenFiles) -> None:
        """Check that every job of the files has the labels.

        Otherwise a later --prune would not find the job after its removal from the files.

        Raises:
            click.UsageError: A job lacks a label.
        """
        for job in given.jobs:
            own: Any = job.get("labels")  # Any: as in `Fields`
            for key, value in self.labels.items():
                if not isinstance(own, dict) or cast("Fields", own).get(key) != value:
                    raise click.UsageError(
                        f"job {job.get('name')!r} lacks the label {key}={value}; add it, since "
                        "all jobs of the files need the labels of --prune"
                    )

    def surplus(self, client: "Client", given: GivenFiles) -> Iterator[JobView]:
        """Yield the jobs to delete, in the namespaces of the files."""
        if not self.labels:
            return
        names = names_of(given.jobs)
        namespaces = {name.partition("/")[0] for name in names}
        if self.namespace or not namespaces:
            namespaces.add(self.namespace or DEFAULT_NAMESPACE)
        for namespace in sorted(namespaces):
            for job in client.jobs(namespace=namespace, labels=self.labels):
                if f"{job.namespace}/{job.name}" not in names:
                    yield job


def prune_options(command: F) -> F:
    """Add ``--prune`` and ``--label``, of which `pruning_of` makes a `Pruning`."""
    for option in (
        click.option(
            "-l",
            "--label",
            "labels",
            metavar="K=V",
            multiple=True,
            help="For --prune: a label that all jobs of these files have, and no other jobs. "
            "Repeatable.",
        ),
        click.option(
            "--prune",
            "is_pruning",
            is_flag=True,
            help="Delete the jobs with the labels of --label that are in none of the files.",
        ),
    ):
        command = option(command)
    return command


def pruning_of(namespace: str | None, *, is_pruning: bool, labels: Iterable[str]) -> Pruning:
    """Return the jobs that the options of `prune_options` select.

    Raises:
        click.UsageError: One of the options is given without the other.
    """
    wanted = dict(pair_of(text) for text in labels)
    if is_pruning != bool(wanted):
        raise click.UsageError("--prune and --label belong together; write --prune -l team=core")
    return Pruning(wanted, namespace)
