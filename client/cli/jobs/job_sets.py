"""``rota jobs apply``: the jobs of files as a whole, checked together."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import click
import msgspec

from rota.client.cli.display.printing import say
from rota.client.cli.display.show import Counter, show_many
from rota.client.cli.display.table_columns import APPLIED, AppliedView
from rota.client.cli.inputs.options import (
    connect,
    dry_run_option,
    examples,
    format_option,
    namespace_option,
    url_option,
)
from rota.client.cli.jobs.job_files import (
    definitions_in,
    files_option,
    full_name_of,
    job_before,
    naming_file,
)
from rota.client.cli.jobs.job_flags import Fields, pair_of
from rota.client.cli.jobs.saved_jobs import say_if_dry, say_warnings
from rota.wire.documents import JobView

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no HTTP library.
    from rota.client.client import Client
    from rota.client.errors import RequestFailed


@click.command(
    "apply",
    epilog=examples(
        "rota jobs apply -f report.yaml",
        "rota jobs apply -f report.yaml --dry-run",
        "rota jobs apply -f jobs/",
        "rota jobs show report -o yaml | rota jobs apply -f -",
        "rota jobs apply -f jobs.yaml --prune -l team=core",
    ),
)
@files_option
@click.option(
    "--prune",
    "is_pruning",
    is_flag=True,
    help="Delete the jobs with the labels of --label that are in none of the files.",
)
@click.option(
    "-l",
    "--label",
    "labels",
    metavar="K=V",
    multiple=True,
    help="For --prune: a label that all jobs of these files have, and no other jobs. Repeatable.",
)
@dry_run_option
@namespace_option
@format_option
@url_option
def apply_jobs(
    files: tuple[str, ...],
    *,
    is_pruning: bool,
    labels: tuple[str, ...],
    is_dry: bool,
    namespace: str | None,
    form: str,
) -> None:
    """Create jobs, or new versions of existing ones; identical definitions change nothing.

    All definitions are checked before the first is written. Unfinished executions continue with
    the version that they started with. With --prune, jobs in the namespaces of the files that have
    the labels are deleted unless a file contains them.
    """
    if is_pruning != bool(labels):
        raise click.UsageError("--prune and --label belong together; write --prune -l team=core")
    definitions = definitions_in(files, namespace)
    _check_names(definitions)
    wanted = dict(pair_of(text) for text in labels)
    if is_pruning:
        _check_labels(definitions, wanted)
    with connect() as client:
        applied = _apply_all(client, definitions, is_dry=True)
        surplus = list(_surplus(client, definitions, wanted)) if is_pruning else []
        for job in surplus:
            client.delete_job(job.job_id, dry_run=True)
        if not is_dry:
            applied = _apply_all(client, definitions, is_dry=False)
            for job in surplus:
                client.delete_job(job.job_id)
    show_many([*applied, *(_as_deleted(job) for job in surplus)], APPLIED, form)
    say_warnings(applied)
    say_if_dry(is_dry=is_dry)


def _apply_all(
    client: "Client", definitions: Sequence[Fields], *, is_dry: bool
) -> list[AppliedView]:
    from rota.client.errors import RequestFailed

    applied: list[AppliedView] = []
    with Counter("checked" if is_dry else "applied", len(definitions)) as counter:
        for number, definition in enumerate(definitions):
            try:
                applied.append(_apply(client, definition, is_dry=is_dry))
            except RequestFailed as error:
                # A dry run creates none of the jobs before this one.
                if is_dry and _missing_jobs(definition, error) <= _names(definitions[:number]):
                    continue
                if len(definitions) > 1:
                    before = f"after {len(applied)} taken, " if applied and not is_dry else ""
                    say(f"{before}job {definition.get('name')!r} is refused:")
                raise
            counter.add(1)
    return applied


def _missing_jobs(definition: Fields, error: "RequestFailed") -> set[str]:
    """Return the names of the jobs whose absence is the only error.

    Other errors give the empty name, which no job has.
    """
    named: Any = definition.get("dependencies")  # Any: as in `Fields`
    if error.code != "unknown_dependency" or not isinstance(named, list):
        return {""}
    numbers = [int(each.pointer.rpartition("/")[2]) for each in error.errors]
    return {full_name_of(definition, cast("list[object]", named)[number]) for number in numbers}


def _check_names(definitions: Iterable[Fields]) -> None:
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


def _names(definitions: Iterable[Fields]) -> set[str]:
    return {full_name_of(each, each.get("name", "")) for each in definitions}


def _check_labels(definitions: Iterable[Fields], wanted: dict[str, str]) -> None:
    """Check that every job of the files has the labels of --prune.

    Otherwise a later --prune would not find the job after its removal from the files.

    Raises:
        click.UsageError: A job lacks a label.
    """
    for definition in definitions:
        own: Any = definition.get("labels")  # Any: as in `Fields`
        for key, value in wanted.items():
            if not isinstance(own, dict) or cast("Fields", own).get(key) != value:
                raise click.UsageError(
                    f"job {definition.get('name')!r} lacks the label {key}={value}; add it, since "
                    "all jobs of the files need the labels of --prune"
                )


def _surplus(
    client: "Client", definitions: Sequence[Fields], wanted: dict[str, str]
) -> Iterator[JobView]:
    """Yield the jobs with the labels *wanted*, in the namespaces of the files, that no file has."""
    names = _names(definitions)
    for namespace in sorted({name.partition("/")[0] for name in names}):
        for job in client.jobs(namespace=namespace, labels=wanted):
            if f"{job.namespace}/{job.name}" not in names:
                yield job


def _as_deleted(job: JobView) -> AppliedView:
    return AppliedView(change="deleted", **msgspec.structs.asdict(job))


def _apply(client: "Client", definition: Fields, *, is_dry: bool) -> AppliedView:
    before = job_before(client, definition)
    with naming_file(definition):
        after = client.put_job(definition, dry_run=is_dry)
    if before is None:
        change = "created"
    else:
        change = "unchanged" if after.version == before.version else "replaced"
    return AppliedView(change=change, **msgspec.structs.asdict(after))
