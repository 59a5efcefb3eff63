"""Names of executions on the command line: an id, ``@latest``, ``JOB@latest``, or ``JOB``."""

import re
from typing import TYPE_CHECKING

import click

from rota.core.errors import RotaError
from rota.core.model.ids import JOB_ID_FORM

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no HTTP library.
    from rota.client.client import Client

LATEST = "latest"
ADVICE = "`rota executions` lists the latest executions"
_BEGINS_AS_ID = re.compile(rf"{JOB_ID_FORM}-", re.ASCII)


class NoExecution(RotaError):
    """There is no execution yet."""

    code = "no_execution"


def is_job(named: str) -> bool:
    """Return True if *named* is the name or id of a job, without ``@latest``.

    An incomplete id of an execution is none, so that the error about it is about an execution.
    """
    return "@" not in named and _BEGINS_AS_ID.match(named) is None


def execution_id_of(client: "Client", named: str, namespace: str | None = None) -> str:
    """Return the id of the execution that *named* denotes; a job denotes its latest one.

    Raises:
        NoExecution: The job, or the cluster, has no execution yet.
        NotFound: There is no such job.
        click.UsageError: The word after the ``@`` is not ``latest``.
    """
    job, at, word = named.rpartition("@")
    if is_job(named):
        job, word = named, LATEST
    elif not at:
        return named
    if word != LATEST:
        raise click.UsageError(
            f"{named!r} is not an execution; after the @ write {LATEST!r}, as in report@{LATEST}"
        )
    try:
        found = next(client.executions(job=job or None, namespace=namespace, limit=1), None)
    except RotaError as error:
        if error.code == "job_not_found" and not at:
            error.add_note(ADVICE)
        raise
    if found is None:
        raise NoExecution(
            f"the job {job} has no executions yet" if job else "there are no executions yet"
        )
    return found.execution_id
