"""Suggestions of existing jobs whose names are similar to one that does not exist."""

import re
from contextlib import suppress
from difflib import get_close_matches

import click

from rota.client.cli.inputs.options import connect
from rota.client.cli.inputs.settings import value_of
from rota.client.paging import PAGE
from rota.core.errors import RotaError
from rota.core.quoting import in_quotes

LOOK_S = 2.0
"""The maximum delay of the error by the search, in seconds."""
CUTOFF = 0.7
"""The least similarity of a suggestion; a name of six characters with two swapped has 0.83."""
SUGGESTIONS_MAX = 3
MISSING = re.compile(r"there is no job '([^']+)'")


def add_near_names(error: RotaError) -> None:
    """Add a note with similar names of jobs in the same namespace to *error*, if there are any.

    Only the first `PAGE` jobs of the namespace are searched, in the order of their names. Nothing
    is added if no node answers in time.
    """
    missing = MISSING.search(str(error))
    if missing is None:
        return
    namespace, slash, name = missing[1].rpartition("/")
    with suppress(RotaError, click.UsageError, ValueError):
        within = namespace or value_of("namespace").text or "default"
        with connect(timeout_s=LOOK_S, repeats_max=0) as client:
            names = [job.name for job in client.jobs(namespace=within, limit=PAGE)]
        near = get_close_matches(name, names, n=SUGGESTIONS_MAX, cutoff=CUTOFF)
        if near:
            suggested = [in_quotes(f"{namespace}{slash}{each}") for each in near]
            error.add_note(f"did you mean {' or '.join(suggested)}?")
