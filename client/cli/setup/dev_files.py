"""The files of ``rota dev -f``: crontabs as they are, and definitions of jobs."""

from collections.abc import Iterable
from pathlib import Path

import click

from rota.client.cli.display.printing import say
from rota.client.cli.files.given_files import read_files
from rota.client.cli.human import counted, now
from rota.client.cli.jobs.imports import report_of, source_of
from rota.client.cli.jobs.job_flags import Fields
from rota.client.client import Client
from rota.client.imports.formats import FORMATS
from rota.client.imports.imported import imported

DEFINITIONS = frozenset({".yaml", ".yml", ".json"})
"""The ends of the names of files with definitions; every other file is a crontab."""


def jobs_of(files: Iterable[str]) -> list[Fields]:
    """Return the jobs of files, and print the report of what a crontab has that is lost or changed.

    Raises:
        InvalidFile: A file cannot be read or parsed.
        click.UsageError: A file has documents other than jobs.
    """
    found: list[Fields] = []
    for file in files:
        if Path(file).suffix in DEFINITIONS or Path(file).is_dir():
            given = read_files([file], None)
            if given.documents:
                raise click.UsageError(f"{file} has documents; apply them with `rota apply -f`")
            found += given.jobs
        else:
            result = imported(FORMATS["crontab"], [source_of(file)], after=now(), namespace=None)
            report_of(result)
            found += [dict(each.definition) for each in result.jobs]
    return found


def save_jobs(jobs: Iterable[Fields], url: str, token: str | None) -> None:
    """Save jobs on a node; those that are as before are not changed."""
    with Client(url, token=token) as client:
        saved = [client.put_job(each) for each in jobs]
    say(f"saved {counted(len(saved), 'job', 'jobs')}")
