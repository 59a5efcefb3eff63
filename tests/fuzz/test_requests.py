"""Health of a node under malformed requests; ``make fuzz REQUESTS=100000`` sends more."""

import asyncio
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from fuzz.requests import requests
from support.rotad import Rotad

COUNT = int(os.environ.get("FUZZ_REQUESTS", "3000"))
SEED = int(os.environ.get("FUZZ_SEED", "1"))
AT_ONCE = 16
ANSWER_S = 0.5
"""Time limit for an answer: some are endless, and half a request gets none."""
HELD_MAX_MS = 100.0
STEADY = {"name": "steady", "type": "scripted", "schedule": "@every 100ms"}
"""A job that fires while the requests arrive."""
FIRES = 50


@pytest.mark.timeout(max(300, COUNT // 20))
def test_strange_requests_break_nothing_and_delay_no_other_work(tmp_path: Path) -> None:
    with Rotad(tmp_path / "data", "--drain", "0s", "--access-log", "off") as node:
        node.prefix = (sys.executable, "-P", str(Path(__file__).with_name("watched_node.py")))
        node.start(60)
        node.create(**STEADY)
        node.wait_until(lambda: len(lateness(node)) >= FIRES, 60)
        before = median(lateness(node))

        statuses = asyncio.run(sent(node, islice(requests(SEED), COUNT)))

        during = median(lateness(node)[:FIRES])
        assert node.call("GET", "/readyz") == "ok\n"
        assert node.stop(60) == 0
        [watched] = re.findall(r'"held_ms": ([\d.]+), "late_ms": ([\d.]+)', node.log())

    sys.stdout.write(
        f"\n{COUNT} requests, seed {SEED}: {dict(sorted(statuses.items()))}\n"
        f"the loop was held for {watched[0]} ms, and {watched[1]} ms late, at most\n"
        f"lateness of fires, median: {before} ms before, {during} ms during\n"
    )
    assert sum(statuses.values()) == COUNT
    assert not [status for status in statuses if status >= 500 and status != 503]
    assert statuses[200] + statuses[201] > COUNT // 20, "few requests were understood"
    assert errors_in(node.log()) == []
    assert float(watched[0]) <= HELD_MAX_MS


async def sent(node: Rotad, drawn: Iterator[bytes]) -> Counter[int]:
    """Send requests, `AT_ONCE` at a time, and count the statuses of the answers; 0 for none."""
    statuses: Counter[int] = Counter()

    async def send() -> None:
        for request in drawn:
            status = await status_of(node, request)
            statuses[status] += 1
            assert status != 500, request
            assert node.process is not None
            assert node.process.poll() is None, request

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(send())
    return statuses


async def status_of(node: Rotad, request: bytes) -> int:
    """Send a request, read the answers, and return the status of the first, or 0."""
    parts = urlsplit(node.url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    answer = b""
    try:
        writer.write(request)
        with suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(ANSWER_S):
                while part := await reader.read(65_536):
                    answer = answer or part
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
    found = [int(each) for each in re.findall(rb"HTTP/1\.\d (\d{3}) ", answer[:300])]
    return next((each for each in found if each != 100), 0)


def lateness(node: Rotad) -> list[float]:
    """Return the lateness of the steady job's executions in milliseconds, newest first."""
    page = node.call("GET", "/api/v1/executions?jobId=steady&limit=1000")
    return [each["latenessMs"] for each in page["items"] if each["latenessMs"] is not None]


def median(values: list[float]) -> float:
    """Return the middle one of the sorted values."""
    return sorted(values)[len(values) // 2]


def errors_in(log: str) -> list[str]:
    """Return the lines of a log that report an error."""
    lines = [line for line in log.splitlines() if line.startswith("{")]
    return [line for line in lines if json.loads(line)["level"] in ("error", "critical")]
