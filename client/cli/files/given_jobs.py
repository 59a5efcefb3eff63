"""The jobs of files, and what the calendars of the files mean for them, without a node."""

from collections.abc import Iterable, Sequence

import click

from rota.client.cli.files.given_files import GivenFiles, read_files
from rota.client.cli.files.planned_fires import facts_of
from rota.core.model.job import JobSpec
from rota.core.vocabulary.facts import Facts


def jobs_in(files: Iterable[str], namespace: str | None) -> tuple[list[JobSpec], Facts]:
    """Return the jobs of files, and what their documents mean for the jobs.

    The definitions are not kept: with 100,000 jobs, they take 70 MB.

    Raises:
        InvalidFile: A file has no valid jobs.
        click.UsageError: A calendar is in no file.
    """
    # Help texts need no packages of a node.
    from rota.client.rehearsal.job_specs import NEXT_STEP, spec_of

    given = read_files(files, namespace)
    jobs = [spec_of(each, NEXT_STEP) for each in given.jobs]
    _check_calendars(jobs, given)
    return jobs, facts_of(given.documents)


def _check_calendars(jobs: Sequence[JobSpec], given: GivenFiles) -> None:
    calendars = {each.name for each in given.documents if each.kind == "calendars"}
    for job in jobs:
        for name in (*job.only_calendars, *job.except_calendars):
            if name not in calendars:
                raise click.UsageError(f"{job.full_name}: no file has the calendar {name!r}")
