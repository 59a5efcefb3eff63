"""Names of executions on the command line: an id, ``@latest``, or ``JOB@latest``."""

import click

from rota.client.client import Client
from rota.core.errors import RotaError

LATEST = "latest"


class NoExecution(RotaError):
    """There is no execution yet."""

    code = "no_execution"


def execution_id_of(client: Client, named: str, namespace: str | None = None) -> str:
    """Return the id of the execution that *named* denotes.

    Raises:
        NoExecution: The job, or the cluster, has no execution yet.
        click.UsageError: The word after the ``@`` is not ``latest``.
    """
    job, at, word = named.rpartition("@")
    if not at:
        return named
    if word != LATEST:
        raise click.UsageError(
            f"{named!r} is not an execution; after the @ write {LATEST!r}, as in report@{LATEST}"
        )
    found = next(client.executions(job=job or None, namespace=namespace, limit=1), None)
    if found is None:
        raise NoExecution(
            f"the job {job} has no executions yet" if job else "there are no executions yet"
        )
    return found.execution_id
