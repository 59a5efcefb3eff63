# mypy: ignore-errors
# pyright: basic, reportMissingImports=false
# ruff: noqa: D103 - the functions are described in rota_app
"""Taskiq with Redis: streams with acknowledgement; its scheduler checks every second."""

import asyncio
import os
from datetime import UTC, datetime

from taskiq import TaskiqScheduler
from taskiq_redis import ListRedisScheduleSource, RedisStreamBroker

from bench.peers.apps.marks import mark as mark_it
from bench.peers.apps.marks import mark_by_process

broker = RedisStreamBroker(os.environ["BENCH_REDIS"])
source = ListRedisScheduleSource(os.environ["BENCH_REDIS"])
scheduler = TaskiqScheduler(broker, [source])
_runner = asyncio.Runner()
_is_started = False


@broker.task
async def mark(path, number):
    mark_it(path, number)


@broker.task
async def mark_in_turn(path, numbers):
    # Taskiq needs an extension for chains; a task that submits the next one has the same effect.
    mark_it(path, numbers[0])
    if numbers[1:]:
        await mark_in_turn.kiq(path, numbers[1:])


@broker.task
def run_process(path, number):
    # Not async, so it runs in a thread of the worker, as the documentation advises for blocking
    # functions.
    mark_by_process(path, number)


def submit(path, numbers):
    _run(_send(mark, path, numbers))


def at(path, dues):
    async def send():
        for number, due in dues.items():
            await mark.schedule_by_time(source, datetime.fromtimestamp(due, UTC), path, number)

    _run(send())


def chain(path, numbers):
    async def send():
        await mark_in_turn.kiq(path, list(numbers))

    _run(send())


def spawn(path, numbers):
    _run(_send(run_process, path, numbers))


def close():
    _run(broker.shutdown())
    _runner.close()


def _run(work):
    global _is_started
    if not _is_started:
        _runner.run(broker.startup())
        _is_started = True
    _runner.run(work)


async def _send(task, path, numbers):
    for number in numbers:
        await task.kiq(path, number)
