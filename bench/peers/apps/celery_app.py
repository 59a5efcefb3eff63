# mypy: ignore-errors
# pyright: basic, reportMissingImports=false
# ruff: noqa: D103 - what the functions do is told in rota_app
"""Celery with Redis: task results are ignored, as its "Optimizing" page advises; else defaults."""

import os
from datetime import UTC, datetime

from celery import Celery
from celery import chain as celery_chain

from bench.peers.apps.marks import mark as mark_it

app = Celery(broker=os.environ["BENCH_REDIS"])
app.conf.task_ignore_result = True
app.conf.broker_connection_retry_on_startup = True


@app.task
def mark(path, number):
    mark_it(path, number)


def submit(path, numbers):
    with app.producer_pool.acquire(block=True) as producer:
        for number in numbers:
            mark.apply_async((path, number), producer=producer)


def at(path, dues):
    with app.producer_pool.acquire(block=True) as producer:
        for number, due in dues.items():
            eta = datetime.fromtimestamp(due, UTC)
            mark.apply_async((path, number), producer=producer, eta=eta)


def chain(path, numbers):
    celery_chain(mark.si(path, number) for number in numbers).apply_async()


def close():
    app.close()
