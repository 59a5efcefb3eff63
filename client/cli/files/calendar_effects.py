"""What calendars of files do to the fire times of jobs on a node."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rota.client.cli.display.printing import say
from rota.client.cli.documents.given_documents import Given
from rota.client.cli.human import absolute
from rota.wire.documents import CalendarPreview

if TYPE_CHECKING:  # For speed, not to avoid a cycle: help texts load no HTTP library.
    from rota.client.client import Client

CALENDAR = "calendar"
TIMES_SHOWN = 5
"""The most times that go, and that come, in one line."""


def preview_of(
    client: "Client", given: Iterable[Given], changed: Collection[str]
) -> CalendarPreview:
    """Return the effect of the calendars in *given* whose names are in *changed*."""
    return client.preview_calendars(
        {
            each.name: each.definition
            for each in given
            if each.kind == "calendars" and each.name in changed
        }
    )


def changed_times(dropped: Sequence[str], added: Sequence[str]) -> Iterator[str]:
    """Yield a line of the times that go, and one of those that come."""
    for word, times in (("goes ", dropped), ("comes", added)):
        if times:
            more = f" and {len(times) - TIMES_SHOWN} more" if len(times) > TIMES_SHOWN else ""
            yield f"{word} {', '.join(map(absolute, times[:TIMES_SHOWN]))} UTC{more}"


def say_effects(client: "Client", given: Iterable[Given], changed: Collection[str]) -> None:
    """Print the effect of calendars on jobs, on standard error."""
    if not changed:
        return
    preview = preview_of(client, given, changed)
    for job in preview.items:
        say(f"affects job {job.job}" + (" (there may be more)" if job.truncated else ""))
        for line in changed_times(job.dropped, job.added):
            say(f"  {line}")
    if preview.truncated:
        say("more jobs may be affected; not all were examined")
