"""``rota jobs create``: jobs from flags or from files."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rota.client.cli.display.printing import say
from rota.client.cli.display.show import Counter, show_many
from rota.client.cli.display.table_columns import CREATED, JOB
from rota.client.cli.inputs.options import (
    connect,
    dry_run_option,
    examples,
    format_option,
    namespace_option,
    url_option,
)
from rota.client.cli.inputs.program_words import ProgramCommand
from rota.client.cli.jobs.job_batches import failure_of_item, parts_of
from rota.client.cli.jobs.job_files import (
    definitions_in,
    in_namespace,
    name_in,
    naming_file,
)
from rota.client.cli.jobs.job_flags import Fields, fields_of, schedule_options, work_options
from rota.client.cli.jobs.saved_jobs import say_if_dry, say_warnings
from rota.wire.documents import CreatedItem

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no HTTP library.
    from rota.client.client import Client

REFUSALS_MAX = 20
"""The most refused jobs that are printed; further ones are only counted."""


@click.command(
    "create",
    cls=ProgramCommand,
    epilog=examples(
        'rota jobs create hello --schedule "*/5 * * * *" -- echo hello',
        "rota jobs create sync --schedule @hourly --retries 3 -- 'fetch | load'",
        "rota jobs create late --start-deadline 5m --execution-timeout 1h --cwd . -- ./report",
        "rota jobs create backup --on-failure https://hooks.example.com/x --cwd . -- ./backup",
        "rota jobs create sums --sandbox strict --memory 2GiB -- sha256sum /usr/bin/env",
        "rota jobs create thumbs --sandbox strict --bind /srv/img:rw --cwd . -- ./thumbs",
        "rota jobs create --type image.render --parameters '{\"width\": 640}'",
        "rota jobs create -f report.yaml",
        "rota jobs create -f report.yaml -f flaky.yaml --dry-run",
    ),
)
@click.argument("name", required=False)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "-f",
    "--file",
    "files",
    metavar="FILE",
    multiple=True,
    help="Jobs in YAML or JSON, one a document, or a folder of such files; - is standard input. "
    "Repeatable.",
)
@schedule_options
@work_options
@dry_run_option
@namespace_option
@format_option
@url_option
def create_job(
    name: str | None,
    command: tuple[str, ...],
    *,
    files: tuple[str, ...],
    namespace: str | None,
    is_dry: bool,
    form: str,
    **given: Any,  # fields of a job, as flags
) -> int:
    """Create a job from flags, or jobs from files.

    The command follows two dashes: several words are a program and its arguments, a single one
    is a line for the shell. Creating an identical job again succeeds.
    """
    from rota.client.definitions import with_whole_paths

    if files:
        if name is not None or any(value not in (None, ()) for value in given.values()):
            raise click.UsageError(
                "a job comes from flags or from a file, not both; omit --file or the flags"
            )
        definitions = definitions_in(files, namespace)
        for each in definitions:
            if "type" not in each:  # The node would run it once, now; see `rota run`.
                name_in(each)
    elif given["type"] is None and (
        name is None or not (command or given["python"] or given["container"])
    ):
        raise click.UsageError(
            "name a job and, after two dashes, its command: rota jobs create hello -- echo hello"
        )
    else:
        definitions = [
            in_namespace(namespace, with_whole_paths(fields_of(name, command, given), Path()))
        ]
    with connect() as client:
        if len(definitions) == 1:
            with naming_file(definitions[0]):
                job = client.create_job(definitions[0], dry_run=is_dry)
            show_many([job], JOB, form)
            say_warnings([job])
            items: list[CreatedItem] = []
        else:
            items = _create_many(client, definitions, is_dry=is_dry)
            show_many([each for each in items if each.error is None], CREATED, form)
    say_if_dry(is_dry=is_dry)
    return _tell_refused(definitions, items)


def _create_many(
    client: "Client", definitions: Sequence[Fields], *, is_dry: bool
) -> list[CreatedItem]:
    created: list[CreatedItem] = []
    with Counter("created", len(definitions)) as counter:
        for part in parts_of(definitions, is_dry=is_dry):
            created += client.create_many(part, dry_run=is_dry)
            counter.add(len(part))
    return created


def _tell_refused(definitions: Sequence[Fields], items: Sequence[CreatedItem]) -> int:
    """Print why jobs are refused; return the exit status of the first refusal, 0 if none is."""
    from rota.client.cli.failures import report

    refused = [
        (definition, item.error)
        for definition, item in zip(definitions, items, strict=False)
        if item.error is not None
    ]
    statuses: list[int] = []
    for definition, problem in refused[:REFUSALS_MAX]:
        say(f"job {definition.get('name')!r} is refused:")
        statuses.append(report(failure_of_item(problem, definition)))
    if len(refused) > REFUSALS_MAX:
        say(f"and {len(refused) - REFUSALS_MAX} more are refused")
    return statuses[0] if statuses else 0
