"""Entries of the ledger of a node."""

from rota.client import Client
from support.rota_program import until


def fire_times_of(url: str, job: str, count: int) -> list[str]:
    """Wait for *count* entries of the ledger of a job, and return their fire times."""
    with Client(url) as client:

        def enough() -> list[str] | None:
            found = [each.fire_time for each in client.ledger(job)]
            return found if len(found) >= count else None

        return until(enough) or []
