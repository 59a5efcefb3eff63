# mypy: ignore-errors
# pyright: basic, reportMissingImports=false
# ruff: noqa: D103 - the functions are described in rota_app
"""Temporal: a workflow whose activities make marks, one after the other.

Run as a program, this module is the worker.
"""

import asyncio
import os
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import cache, partial
from uuid import uuid4

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    from bench.peers.apps.asking import Asking
    from bench.peers.apps.marks import mark as mark_it
    from bench.peers.apps.marks import mark_by_process

QUEUE = "bench"
THREADS = 10
asking = Asking(at_once=8)


@activity.defn
def mark(path: str, number: int) -> None:
    mark_it(path, number)


@activity.defn
def run_process(path: str, number: int) -> None:
    mark_by_process(path, number)


@workflow.defn
class Marking:
    """A workflow that marks each number, one after the other."""

    @workflow.run
    async def run(self, path: str, numbers: list[int]) -> None:
        """Run an activity for each number."""
        for number in numbers:
            await workflow.execute_activity(
                mark, args=[path, number], start_to_close_timeout=timedelta(seconds=60)
            )


@workflow.defn
class RunningProcess:
    """A workflow that marks each number by a process."""

    @workflow.run
    async def run(self, path: str, numbers: list[int]) -> None:
        """Run an activity with a process for each number."""
        for number in numbers:
            await workflow.execute_activity(
                run_process, args=[path, number], start_to_close_timeout=timedelta(seconds=60)
            )


def submit(path, numbers):
    client = _client()
    asking.run_all(partial(_start, client, path, [number]) for number in numbers)


def at(path, dues):
    client = _client()
    asking.run_all(partial(_start, client, path, [number], due) for number, due in dues.items())


def chain(path, numbers):
    asking.run(_start(_client(), path, list(numbers)))


def spawn(path, numbers):
    client = _client()
    start = partial(_start, client, kind="RunningProcess")
    asking.run_all(partial(start, path, [number]) for number in numbers)


def close():
    asking.close()


@cache
def _client():
    return asking.run(Client.connect(os.environ["BENCH_TEMPORAL"]))


async def _start(client, path, numbers, due=None, kind="Marking"):
    delay = None if due is None else timedelta(seconds=max(0.0, due - time.time()))
    await client.start_workflow(
        kind, args=[path, numbers], id=str(uuid4()), task_queue=QUEUE, start_delay=delay
    )


async def _work():
    client = await Client.connect(os.environ["BENCH_TEMPORAL"])
    with ThreadPoolExecutor(THREADS) as threads:
        worker = Worker(
            client,
            task_queue=QUEUE,
            workflows=[Marking, RunningProcess],
            activities=[mark, run_process],
            activity_executor=threads,
            max_concurrent_activities=THREADS,
        )
        await worker.run()


if __name__ == "__main__":
    asyncio.run(_work())
