"""What commands print about saved jobs."""

from collections.abc import Iterable

from rota.client.cli.display.printing import say
from rota.wire.documents import JobView


def say_warnings(jobs: Iterable[JobView]) -> None:
    """Print the warnings about saved jobs."""
    for job in jobs:
        for warning in job.warnings:
            say(f"warning: {job.name}: {warning}")


def say_if_dry(*, is_dry: bool) -> None:
    """Print that nothing was changed, after a dry run."""
    if is_dry:
        say("dry run: nothing is changed")
