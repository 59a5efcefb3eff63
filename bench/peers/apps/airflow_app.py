# pyright: basic
# ruff: noqa: D103 - the functions are described in rota_app
"""Airflow: runs of the DAGs in `dags`, requested over its HTTP API.

Airflow is not imported here, as the import takes seconds.
"""

import http.client
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from urllib.parse import urlsplit
from uuid import uuid4

_server = http.client.HTTPConnection(urlsplit(os.environ["BENCH_AIRFLOW"]).netloc)
_headers = {"Content-Type": "application/json"}


def submit(path: str, numbers: Iterable[int]) -> None:
    for number in numbers:
        _run("one", path, [number])


def at(path: str, dues: Mapping[int, float]) -> None:
    for number, due in dues.items():
        _run("one", path, [number], run_after=datetime.fromtimestamp(due, UTC).isoformat())


def chain(path: str, numbers: Sequence[int]) -> None:
    _run("ten", path, numbers)


def spawn(path: str, numbers: Iterable[int]) -> None:
    for number in numbers:
        _run("one_process", path, [number])


def close() -> None:
    _server.close()


def _run(dag: str, path: str, numbers: Sequence[int], **more: str) -> None:
    if "Authorization" not in _headers:
        _headers["Authorization"] = f"Bearer {_call('GET', '/auth/token')['access_token']}"
    # By default, the name of a run is the time at which it is due, and names must be unique.
    asked = {"dag_run_id": str(uuid4()), "logical_date": None, **more}
    conf = {"path": path, "numbers": [*numbers]}
    _call("POST", f"/api/v2/dags/{dag}/dagRuns", asked | {"conf": conf})


def _call(method: str, path: str, body: object = None) -> dict[str, str]:
    try:
        _server.request(method, path, json.dumps(body) if body else None, _headers)
        with _server.getresponse() as answer:
            text = answer.read()
    except OSError:
        _server.close()  # The next request connects again.
        raise
    if answer.status >= 300:
        raise OSError(f"{method} {path}: {answer.status} {text.decode()}")
    found: dict[str, str] = json.loads(text)
    return found
