"""``rota explain`` on a node."""

from rota.client import Client
from support.ledger_entries import fire_times_of
from support.rota_program import Rota


def codes(rota: Rota, job: str, at: str) -> list[str]:
    """Return the codes of the causes."""
    return [each["code"] for each in rota("explain", job, "--at", at, "-o", "json").json]


def test_past_and_future_times_are_explained(rota: Rota, url: str) -> None:
    rota("jobs", "create", "odd", "--schedule", "@every 200ms", "--", "false")
    first = fire_times_of(url, "odd", 3)[0]
    with Client(url) as client:
        execution = client.wait(next(client.ledger("odd")).execution_id or "")
        client.put_document("calendars", "all-days", {"weekdays": ["MON-SUN"]})
    table = rota("explain", "odd", "--at", first)

    rota("jobs", "set", "odd", "schedule=0 0 1 1 *", "overlap=skip")
    seen = {
        at: codes(rota, "odd", at)
        for at in (first, "2001-01-01T00:00:00Z", "2090-01-01T00:00:00Z", "2090-01-02T00:00:00Z")
    }
    rota("jobs", "set", "odd", "exceptCalendars=[all-days]")
    excluded = codes(rota, "odd", "2090-01-01T00:00:00Z")
    rota("jobs", "pause", "odd")
    paused = codes(rota, "odd", "2090-01-01T00:00:00Z")

    assert f"rota rerun {execution.execution_id}" in table.out
    assert list(seen.values()) == [
        ["version", "fired", "execution_failed"],
        ["not_yet_created"],
        ["will_fire"],
        ["no_fire_time"],
    ]
    assert (excluded, paused) == (["excluded"], ["paused"])
    assert rota("explain", "odd").status == 2
