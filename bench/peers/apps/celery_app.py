# mypy: ignore-errors
# pyright: basic, reportMissingImports=false
# ruff: noqa: D103 - the functions are described in rota_app
"""Celery with Redis: results are ignored, as its page "Optimizing" advises; otherwise defaults."""

import os
from datetime import UTC, datetime

from celery import Celery
from celery import chain as celery_chain

from bench.peers.apps.marks import mark as mark_it
from bench.peers.apps.marks import mark_by_process

app = Celery(broker=os.environ["BENCH_REDIS"])
app.conf.task_ignore_result = True
app.conf.broker_connection_retry_on_startup = True


@app.task
def mark(path, number):
    mark_it(path, number)


@app.task
def run_process(path, number):
    mark_by_process(path, number)


def submit(path, numbers):
    _send(mark, path, numbers)


def at(path, dues):
    with app.producer_pool.acquire(block=True) as producer:
        for number, due in dues.items():
            eta = datetime.fromtimestamp(due, UTC)
            mark.apply_async((path, number), producer=producer, eta=eta)


def chain(path, numbers):
    celery_chain(mark.si(path, number) for number in numbers).apply_async()


def spawn(path, numbers):
    _send(run_process, path, numbers)


def close():
    app.close()


def _send(task, path, numbers):
    with app.producer_pool.acquire(block=True) as producer:
        for number in numbers:
            task.apply_async((path, number), producer=producer)
