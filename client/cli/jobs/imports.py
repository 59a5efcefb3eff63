"""``rota import``: jobs of another scheduler as definitions, and a report of what is lost."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import click

from rota.client.cli.display.printing import one_line, out, say, visible_yaml
from rota.client.cli.display.show import print_document
from rota.client.cli.human import now
from rota.client.cli.inputs.files import STANDARD_INPUT
from rota.client.cli.inputs.options import FORM, examples, namespace_option
from rota.client.definitions import InvalidFile, definitions_text
from rota.client.imports.drafts import Source
from rota.client.imports.formats import FORMATS
from rota.client.imports.imported import Imported, ImportedJob, imported, schedules_of

FILE_BYTES_MAX = 10_000_000
EX_LOST = 8


def _as_json(ctx: click.Context, param: click.Parameter, value: bool) -> bool:
    del param
    if value:
        ctx.meta[FORM] = "json"
    return value


@click.command(
    "import",
    epilog=examples(
        "rota import crontab crontab.txt -o crontab.yaml",
        "rota import crontab crontab.txt --json",
    ),
)
@click.argument("source_format", metavar="FORMAT", type=click.Choice([*FORMATS]))
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("-o", "--output", "target", metavar="FILE", help="File for the definitions, in YAML.")
@click.option(
    "--system",
    "is_system",
    is_flag=True,
    default=None,
    help="The entries of a crontab have a user, as below /etc.  [default: by the path]",
)
@click.option(
    "--json",
    "is_json",
    is_flag=True,
    is_eager=True,
    callback=_as_json,
    help="Print definitions, fire times and report as JSON.",
)
@namespace_option
def import_jobs(
    source_format: str,
    files: Sequence[str],
    *,
    target: str | None,
    is_system: bool | None,
    is_json: bool,
    namespace: str | None,
) -> int:
    """Convert jobs of another scheduler to definitions for `rota jobs apply -f`.

    FORMAT is FORMATS. FILE is a file of that scheduler; - is standard input.
    The definitions are printed; the next fire times, and a report of what is lost or
    changed, follow on standard error. The exit status is 8 if something is lost.
    """
    if is_system and source_format != "crontab":
        raise click.UsageError("--system is for crontabs alone")
    sources = [source_of(file, is_system=is_system) for file in files]
    result = imported(FORMATS[source_format], sources, after=now(), namespace=namespace)
    if target is not None:
        Path(target).write_text(_yaml(result), encoding="utf-8")
    if is_json:
        print_document(result, "json")
    else:
        if target is None:
            out(_yaml(result), end="")
        report_of(result)
    return 0 if result.is_whole else EX_LOST


import_jobs.help = (import_jobs.help or "").replace("FORMATS", " or ".join(FORMATS))


def source_of(file: str, *, is_system: bool | None = None) -> Source:
    """Return the content of a file; ``-`` is standard input.

    Args:
        file: The file.
        is_system: Whether the entries of a crontab have a user; None to decide by its path.

    Raises:
        InvalidFile: It cannot be read, is too large, or is not UTF-8 text.
    """
    if file == STANDARD_INPUT:
        content = _read(sys.stdin.buffer, file)
    else:
        try:
            with open(file, "rb") as stream:
                content = _read(stream, file)
        except OSError as error:
            raise InvalidFile(f"{file}: {error.strerror}") from error
    try:
        return Source(file, content.decode("utf-8-sig"), is_system)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        detail = f"{file}:{line}: the file is not UTF-8 text: {error.reason}; save it as UTF-8"
        raise InvalidFile(detail) from error


def _read(stream: IO[bytes], file: str) -> bytes:
    content = stream.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        raise InvalidFile(f"{file}: the file has more than 10 MB; import parts of it")
    return content


def _yaml(result: Imported) -> str:
    definitions = [job.definition for job in result.jobs]
    return visible_yaml(
        lambda has_unicode: definitions_text(definitions, allow_unicode=has_unicode)
    )


def report_of(result: Imported) -> None:
    """Print the next fire times and the notes, as tables, on standard error."""
    _say_table(
        ("JOB", "FROM", "SCHEDULE", "NEXT FIRE TIMES"),
        [
            (job.definition["name"], f"{job.file}:{job.line}", _schedule(job), "  ".join(job.next))
            for job in result.jobs
        ],
    )
    if result.report:
        say("")
        _say_table(
            ("LINE", "EFFECT", "WHAT", "REMEDY"),
            [
                (f"{note.file}:{note.line}", note.effect, note.what, note.remedy)
                for note in result.report
            ],
        )


def _schedule(job: ImportedJob) -> str:
    return ", ".join(each.text for each in schedules_of(job.definition)) or "when triggered"


def _say_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    lines = [titles, *([one_line(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        say("  ".join(padded).rstrip())
