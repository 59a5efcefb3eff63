"""The files of ``rota dev -f``: crontabs as they are, and definitions of jobs."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from rota.client.cli.display.printing import say
from rota.client.cli.files.given_files import read_files
from rota.client.cli.human import counted, now
from rota.client.cli.jobs.imports import report_of, source_of
from rota.client.cli.jobs.job_flags import Fields
from rota.client.client import Client
from rota.client.imports.formats import FORMATS
from rota.client.imports.imported import imported
from rota.wire.documents import JobView

DEFINITIONS = frozenset({".yaml", ".yml", ".json"})
"""The ends of the names of files with definitions; every other file is a crontab."""
LABEL = "rota-dev"
"""The label of the jobs that ``rota dev -f`` saves."""


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
    """Save jobs on a node, and delete those that an earlier call saved and that are not among them.

    Jobs that are as before are not changed. Those with a new ``@startup`` are triggered: they were
    saved after the start of the node.
    """
    with Client(url, token=token) as client:
        before = {each.job_id: each for each in client.jobs()}
        saved = [client.put_job(_labelled(each)) for each in jobs]
        kept = {each.job_id for each in saved}
        surplus = [
            each for each in before.values() if LABEL in each.labels and each.job_id not in kept
        ]
        for each in surplus:
            client.delete_job(each.job_id)
        for each in saved:
            if _starts_with_node(each) and not _starts_with_node(before.get(each.job_id)):
                client.trigger(each.job_id)
    say(f"saved {counted(len(saved), 'job', 'jobs')}")
    if surplus:
        say(f"deleted {counted(len(surplus), 'job', 'jobs')} of earlier files")


def _labelled(job: Fields) -> Fields:
    labels: Any = job.get("labels") or {}  # Any: the node checks it.
    if not isinstance(labels, dict):
        return job  # The node refuses it, and names the place.
    return {**job, "labels": {**labels, LABEL: "file"}}


def _starts_with_node(job: JobView | None) -> bool:
    return job is not None and any(each.schedule == "@startup" for each in job.schedules)
