"""rota: executions of jobs whose function runs in warm workers, or of jobs with a command.

Every app has these five functions. Each number is marked once, by `marks.mark`, or in `spawn` by a
process. If the system does not answer, a function raises an error of that system, and may be called
again.
"""

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from rota.client import Client
from rota.wire.documents import Json, TriggerItem

JOBS = 50
SEND_AGAIN_S = 0.02
FOLDERS = [str(Path(__file__).parents[3])]
client = Client(os.environ["BENCH_URLS"])
_made: set[str] = set()


def submit(path: str, numbers: Iterable[int]) -> None:
    """Request that each number is marked now."""
    prefix = _word(path)
    _have_jobs(prefix, _marking())
    _trigger(
        TriggerItem(job=f"{prefix}-{number % JOBS}", parameters={"path": path, "number": number})
        for number in numbers
    )


def at(path: str, dues: Mapping[int, float]) -> None:
    """Request that each number is marked at its time, in seconds since 1970."""
    _create(
        {
            "name": f"{_word(path)}-at-{number}",
            "schedule": f"@at {datetime.fromtimestamp(due, UTC).strftime('%Y-%m-%dT%H:%M:%S.%fZ')}",
            "misfire": "latest",
            **_marking(path, number),
        }
        for number, due in dues.items()
    )


def chain(path: str, numbers: Sequence[int]) -> None:
    """Request that numbers are marked one after the other."""
    job = f"{_word(path)}-chain-{numbers[0]}"
    needs: list[str] = []
    tasks: list[Json] = []
    for number in numbers:
        tasks.append({"name": f"t{number}", "needs": needs, **_marking(path, number)})
        needs = [f"t{number}"]
    _create([{"name": job, "tasks": tasks}])
    client.trigger(job)


def spawn(path: str, numbers: Iterable[int]) -> None:
    """Request that each number is marked now by its own process: a shell, as in `marks.SCRIPT`."""
    prefix = f"{_word(path)}-process"
    _have_jobs(prefix, {"command": 'echo "$ROTA_PARAMETERS 0" >>"$MARKS"', "env": {"MARKS": path}})
    _trigger(TriggerItem(job=f"{prefix}-{number % JOBS}", parameters=number) for number in numbers)


def close() -> None:
    """Close the connections of the app."""
    client.close()


def _marking(path: str = "", number: int = 0) -> dict[str, Json]:
    """Return the part of a job or task that marks; without a path, the number is a parameter."""
    call: dict[str, Json] = {"function": "bench.peers.apps.marks:mark", "path": FOLDERS}
    return {"python": call | ({"args": [path, number]} if path else {})}


def _have_jobs(prefix: str, body: dict[str, Json]) -> None:
    if prefix not in _made:
        _create({"name": f"{prefix}-{job}"} | body for job in range(JOBS))
        _made.add(prefix)


def _trigger(wanted: Iterable[TriggerItem]) -> None:
    items: list[TriggerItem] = [*wanted]
    while items:
        made = zip(items, client.trigger_many(items), strict=True)
        # Items that were refused, because of overload or a missing primary, are sent again.
        items = [item for item, answer in made if answer.error]
        time.sleep(SEND_AGAIN_S if items else 0)


def _create(jobs: Iterable[dict[str, Json]]) -> None:
    waiting: list[dict[str, Json]] = [*jobs]
    while waiting:
        made = [*zip(waiting, client.create_many(waiting), strict=True)]
        wrong = [answer.error for _, answer in made if answer.error and answer.error.status != 503]
        assert not wrong, wrong[0]
        # The other errors are those of shards that have no primary for a moment.
        waiting = [job for job, answer in made if answer.error]
        time.sleep(SEND_AGAIN_S if waiting else 0)


def _word(path: str) -> str:
    return "".join(each if each.isalnum() else "-" for each in path).strip("-")[-60:].strip("-")
