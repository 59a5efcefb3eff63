"""rota: executions of jobs whose function runs in warm workers, or of jobs with a command.

Every app has these five functions. Numbers are marked by `marks.mark`, each once, and by a process
of its own in `spawn`. What they raise where the system does not answer is the system's own; they
may be called again then.
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
    """Have each number marked, now."""
    prefix = _word(path)
    _have_jobs(prefix, _marking())
    _trigger(
        TriggerItem(job=f"{prefix}-{number % JOBS}", parameters={"path": path, "number": number})
        for number in numbers
    )


def at(path: str, dues: Mapping[int, float]) -> None:
    """Have each number marked at its time, in seconds since 1970."""
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
    """Have numbers marked one after the other."""
    job = f"{_word(path)}-chain-{numbers[0]}"
    needs: list[str] = []
    tasks: list[Json] = []
    for number in numbers:
        tasks.append({"name": f"t{number}", "needs": needs, **_marking(path, number)})
        needs = [f"t{number}"]
    _create([{"name": job, "tasks": tasks}])
    client.trigger(job)


def spawn(path: str, numbers: Iterable[int]) -> None:
    """Have each number marked by a process of its own, now: a shell that echoes, as `SCRIPT`."""
    prefix = f"{_word(path)}-process"
    _have_jobs(prefix, {"command": 'echo "$ROTA_PARAMETERS 0" >>"$MARKS"', "env": {"MARKS": path}})
    _trigger(TriggerItem(job=f"{prefix}-{number % JOBS}", parameters=number) for number in numbers)


def close() -> None:
    """End what the app has open."""
    client.close()


def _marking(path: str = "", number: int = 0) -> dict[str, Json]:
    """Return what a job or task has that marks; without a path its parameters say what."""
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
        # Refused for lack of room, or of a primary for a moment: sent again.
        items = [item for item, answer in made if answer.error]
        time.sleep(SEND_AGAIN_S if items else 0)


def _create(jobs: Iterable[dict[str, Json]]) -> None:
    waiting: list[dict[str, Json]] = [*jobs]
    while waiting:
        made = [*zip(waiting, client.create_many(waiting), strict=True)]
        wrong = [answer.error for _, answer in made if answer.error and answer.error.status != 503]
        assert not wrong, wrong[0]
        # The rest: a shard without a primary for a moment.
        waiting = [job for job, answer in made if answer.error]
        time.sleep(SEND_AGAIN_S if waiting else 0)


def _word(path: str) -> str:
    return "".join(each if each.isalnum() else "-" for each in path).strip("-")[-60:].strip("-")
