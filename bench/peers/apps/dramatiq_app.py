# mypy: ignore-errors
# pyright: basic, reportMissingImports=false
# ruff: noqa: D103 - the functions are described in rota_app
"""Dramatiq with Redis: its defaults, with delays and pipelines as in its guide."""

import os
import time

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from bench.peers.apps.marks import mark as mark_it
from bench.peers.apps.marks import mark_by_process

broker = RedisBroker(url=os.environ["BENCH_REDIS"])
dramatiq.set_broker(broker)


@dramatiq.actor
def mark(path, number):
    mark_it(path, number)


@dramatiq.actor
def run_process(path, number):
    mark_by_process(path, number)


def submit(path, numbers):
    for number in numbers:
        mark.send(path, number)


def at(path, dues):
    for number, due in dues.items():
        delay = max(0, round(1e3 * (due - time.time())))
        mark.send_with_options(args=(path, number), delay=delay)


def chain(path, numbers):
    steps = [mark.message_with_options(args=(path, n), pipe_ignore=True) for n in numbers]
    dramatiq.pipeline(steps).run()


def spawn(path, numbers):
    for number in numbers:
        run_process.send(path, number)


def close():
    broker.close()
