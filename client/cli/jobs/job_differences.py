"""``rota jobs diff``: the differences between jobs and their files."""

import difflib
from itertools import count
from typing import TYPE_CHECKING

import click
import msgspec

from rota.client.cli.display.printing import Piece, Styled, out
from rota.client.cli.display.show import as_yaml, is_coloured
from rota.client.cli.inputs.options import connect, examples, namespace_option, url_option
from rota.client.cli.jobs.job_files import (
    definitions_in,
    elements_of,
    files_option,
    full_name_of,
    job_before,
    naming_file,
)
from rota.client.cli.jobs.job_flags import Fields
from rota.wire.documents import JobBody, JobView

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no HTTP library.
    from rota.client.client import Client

EX_DIFFERENT = 8


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
def diff_jobs(files: tuple[str, ...], namespace: str | None) -> int:
    """Show how jobs on the node differ from files; exit with 8 if they do.

    Both are shown as the node parses them, with the defaults of omitted fields.
    """
    is_different = False
    new: set[str] = set()
    with connect() as client:
        for definition in definitions_in(files, namespace):
            before = job_before(client, definition)
            with naming_file(definition):
                after = _as_saved(client, definition, new)
            if before is None:
                new.add(f"{after.namespace}/{after.name}")
            lines = _difference(before, after)
            is_different = is_different or bool(lines)
            for line in lines:
                out(line)
    return EX_DIFFERENT if is_different else 0


def _as_saved(client: "Client", definition: Fields, new: set[str]) -> JobView:
    """Return the job as the node would save it, if it had the *new* jobs."""
    named = [full_name_of(definition, each) for each in elements_of(definition, "dependencies")]
    known = [name for name in named if name not in new]
    if len(known) == len(named):
        return client.put_job(definition, dry_run=True)
    saved = client.put_job({**definition, "dependencies": known}, dry_run=True)
    fields = {**(saved.definition or {}), "dependencies": named}
    order = [each.encode_name for each in msgspec.structs.fields(JobBody)]
    ordered = {name: fields[name] for name in order if name in fields}
    return msgspec.structs.replace(saved, definition=ordered)


def _difference(before: JobView | None, after: JobView) -> list[Piece]:
    name = f"{after.namespace}/{after.name}"
    there = f"{name} (version {before.version})" if before else f"{name} (not there)"
    lines = list(
        difflib.unified_diff(
            _canonical(before), _canonical(after), there, f"{name} (as given)", lineterm=""
        )
    )
    return [*map(_coloured, count(), lines)] if is_coloured() else [*lines]


def _canonical(job: JobView | None) -> list[str]:
    return [] if job is None else as_yaml(job.definition).splitlines()


def _coloured(number: int, line: str) -> Styled:
    if number < 2:
        return Styled(line, is_bold=True)
    return Styled(line, colour={"-": "red", "+": "green", "@": "cyan"}.get(line[:1]))
