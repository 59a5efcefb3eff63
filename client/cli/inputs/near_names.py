"""Suggestions of existing jobs whose names are similar to one that does not exist."""

import re
from contextlib import suppress

import click

from rota.client.cli.inputs.options import connect
from rota.client.cli.inputs.settings import value_of
from rota.client.paging import PAGE
from rota.core.errors import RotaError
from rota.core.near_names import did_you_mean

LOOK_S = 2.0
"""The maximum delay of the error by the search, in seconds."""
SUGGESTED = "did you mean"
MISSING = re.compile(r"there is no job '([^']+)'")


def add_near_names(error: RotaError) -> None:
    """Add a note with similar names of jobs in the same namespace to *error*, if there are any.

    A node suggests only jobs of the shards for which it decides. If it suggests none, the first
    `PAGE` jobs of the namespace are searched, in the order of their names. Nothing is added if no
    node answers in time.
    """
    missing = MISSING.search(str(error))
    if missing is None or SUGGESTED in str(error):
        return
    namespace, slash, name = missing[1].rpartition("/")
    with suppress(RotaError, click.UsageError, ValueError):
        within = namespace or value_of("namespace").text or "default"
        with connect(timeout_s=LOOK_S, repeats_max=0) as client:
            names = [job.name for job in client.jobs(namespace=within, limit=PAGE)]
        if hint := did_you_mean(name, names, prefix=f"{namespace}{slash}"):
            error.add_note(hint)
