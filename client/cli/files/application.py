"""``rota apply``: the jobs and documents of files as a whole, checked together."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from rota.client.cli.display.printing import out
from rota.client.cli.display.show import Rows, print_document, show_many
from rota.client.cli.display.table_columns import APPLIED as APPLIED_JOB
from rota.client.cli.display.table_columns import AppliedView
from rota.client.cli.documents.given_documents import APPLIED, AppliedDocument, apply_documents
from rota.client.cli.files.calendar_effects import say_effects
from rota.client.cli.files.given_files import GivenFiles, prune_options, pruning_of, read_files
from rota.client.cli.human import counted
from rota.client.cli.inputs.files import files_option
from rota.client.cli.inputs.options import (
    connect,
    dry_run_option,
    examples,
    format_option,
    namespace_option,
    url_option,
)
from rota.client.cli.jobs.job_flags import Fields
from rota.client.cli.jobs.job_selection import confirm
from rota.client.cli.jobs.job_sets import apply_all, as_deleted, check_all
from rota.client.cli.jobs.saved_jobs import say_if_dry, say_warnings
from rota.wire.documents import ITEMS_MAX, JobView

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no HTTP library.
    from rota.client.client import Client


@click.command(
    "apply",
    epilog=examples(
        "rota apply -f report.yaml",
        "rota apply -f jobs/ -f types.yaml --dry-run",
        "rota jobs show report -o yaml | rota apply -f -",
        "rota apply -f jobs.yaml --prune -l team=core --yes",
        "rota jobs apply -f report.yaml",
    ),
)
@files_option
@prune_options
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask before jobs are deleted.")
@dry_run_option
@namespace_option
@format_option
@url_option
def apply_files(
    files: tuple[str, ...],
    *,
    is_pruning: bool,
    labels: tuple[str, ...],
    is_sure: bool,
    is_dry: bool,
    namespace: str | None,
    form: str,
) -> None:
    """Create or replace jobs and shared documents; identical definitions change nothing.

    A document has kind, name and definition; a job has no kind. All definitions are checked before
    the first is written. Documents are written before the jobs, roles before the bindings that name
    them. Unfinished executions continue with the version that they started with. With --prune, jobs
    in the namespaces of the files that have the labels are deleted unless a file contains them.
    `rota plan` shows the changes first. `rota jobs apply` is the same command.
    """
    pruning = pruning_of(namespace, is_pruning=is_pruning, labels=labels)
    given = read_files(files, namespace)
    pruning.check(given)
    with connect() as client:
        documents, jobs = check_given(client, given, views=is_dry)
        surplus = [*pruning.surplus(client, given)]
        for job in surplus:
            client.delete_job(job.job_id, dry_run=True)
        if not is_dry:
            if surplus and not is_sure:
                confirm(f"delete {counted(len(surplus), 'job', 'jobs')} that no file has")
            _apply(client, given, surplus, form)
            return
        changed = {
            each.name
            for each in documents
            if each.kind == "calendars" and each.change != "unchanged"
        }
        say_effects(client, given.documents, changed)
    _show(documents, [*jobs, *map(as_deleted, surplus)], form)
    say_warnings(jobs)
    say_if_dry(is_dry=is_dry)


def _apply(client: "Client", given: GivenFiles, surplus: Sequence[JobView], form: str) -> None:
    """Apply files, delete the *surplus* jobs, and print what was done.

    The jobs of one part are printed together. More are printed part by part, because those of large
    files need much memory; only JSON and YAML are one document.
    """
    documents = apply_documents(client, given.documents, is_dry=False)
    parts = _applied_parts(client, given.jobs, surplus)
    if len(given.jobs) <= ITEMS_MAX or form in ("json", "yaml"):
        jobs = [job for part in parts for job in part]
        _show(documents, jobs, form)
        say_warnings(jobs)
        return
    if documents:
        show_many(documents, APPLIED, form)
        if form in ("table", "wide"):
            out("")
    rows = Rows(APPLIED_JOB, form)
    for part in parts:
        rows.print(part)
        say_warnings(part)


def _applied_parts(
    client: "Client", definitions: Sequence[Fields], surplus: Sequence[JobView]
) -> Iterator[list[AppliedView]]:
    yield from apply_all(client, definitions)
    for job in surplus:
        client.delete_job(job.job_id)
    if surplus:
        yield list(map(as_deleted, surplus))


def check_given(
    client: "Client", given: GivenFiles, *, views: bool = False
) -> tuple[list[AppliedDocument], list[AppliedView]]:
    """Check documents and jobs; return the jobs as they would be saved if *views*, else none."""
    named = {(each.kind, each.name) for each in given.documents}
    documents = apply_documents(client, given.documents, is_dry=True)
    return documents, check_all(client, given.jobs, written_before=named, views=views)


def apply_given(
    client: "Client", given: GivenFiles
) -> tuple[list[AppliedDocument], list[AppliedView]]:
    """Create or replace documents and then jobs."""
    documents = apply_documents(client, given.documents, is_dry=False)
    return documents, [job for part in apply_all(client, given.jobs) for job in part]


def _show(documents: list[AppliedDocument], jobs: list[AppliedView], form: str) -> None:
    """Print what was applied: in two tables, or as one list."""
    if form in ("json", "yaml"):
        print_document([*documents, *jobs], form)
        return
    if documents:
        show_many(documents, APPLIED, form)
    if documents and jobs and form in ("table", "wide"):
        out("")
    if jobs or not documents:
        show_many(jobs, APPLIED_JOB, form)
