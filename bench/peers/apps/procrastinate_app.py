# mypy: ignore-errors
# pyright: basic, reportMissingImports=false
# ruff: noqa: D103 - the functions are described in rota_app
"""Procrastinate with PostgreSQL: its defaults; several jobs are deferred with one statement."""

import os
from datetime import UTC, datetime

from procrastinate import App, PsycopgConnector, SyncPsycopgConnector

from bench.peers.apps.marks import mark as mark_it
from bench.peers.apps.marks import mark_by_process

_is_driver = "BENCH_FOLDER" in os.environ
_connector = SyncPsycopgConnector if _is_driver else PsycopgConnector
app = App(connector=_connector(conninfo=os.environ["BENCH_POSTGRES"]))


@app.task
def mark(path, number):
    mark_it(path, number)


@app.task
async def mark_in_turn(path, numbers):
    mark_it(path, numbers[0])
    if numbers[1:]:
        await mark_in_turn.defer_async(path=path, numbers=numbers[1:])


@app.task
def run_process(path, number):
    mark_by_process(path, number)


def submit(path, numbers):
    _defer(mark, path, numbers)


def at(path, dues):
    _open()
    for number, due in dues.items():
        when = datetime.fromtimestamp(due, UTC)
        mark.configure(schedule_at=when).defer(path=path, number=number)


def chain(path, numbers):
    _open()
    mark_in_turn.defer(path=path, numbers=list(numbers))


def spawn(path, numbers):
    _defer(run_process, path, numbers)


def close():
    app.close()


def _defer(task, path, numbers):
    _open()
    if len(numbers) == 1:
        task.defer(path=path, number=numbers[0])
    else:
        task.batch_defer(*({"path": path, "number": number} for number in numbers))


def _open():
    global _is_open
    if not _is_open:
        app.open()
        _is_open = True


_is_open = False
