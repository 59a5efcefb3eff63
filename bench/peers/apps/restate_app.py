# mypy: ignore-errors
# pyright: basic, reportMissingImports=false
# ruff: noqa: D103 - the functions are described in rota_app
"""Restate: a service whose handlers make marks in steps of `ctx.run`, as its guide recommends.

Run as a program, this module registers the service at the server.
"""

import json
import os
import time
from functools import cache, partial
from urllib.request import Request, urlopen

import httpx
import restate

from bench.peers.apps.asking import Asking
from bench.peers.apps.marks import mark as mark_it
from bench.peers.apps.marks import mark_by_process

service = restate.Service("bench")
asking = Asking(at_once=64)


@service.handler()
async def mark(ctx: restate.Context, order: dict) -> None:
    for number in order["numbers"]:
        await ctx.run_typed(f"mark {number}", mark_it, path=order["path"], number=number)


@service.handler()
async def run_process(ctx: restate.Context, order: dict) -> None:
    # `run_typed` calls a function that is not async in a thread.
    for number in order["numbers"]:
        await ctx.run_typed(f"run {number}", mark_by_process, path=order["path"], number=number)


app = restate.app([service])


def submit(path, numbers):
    client = _client()
    asking.run_all(partial(_send, client, path, [number]) for number in numbers)


def at(path, dues):
    client = _client()
    asking.run_all(partial(_send, client, path, [number], due) for number, due in dues.items())


def chain(path, numbers):
    asking.run(_send(_client(), path, list(numbers)))


def spawn(path, numbers):
    client = _client()
    send = partial(_send, client, handler="run_process")
    asking.run_all(partial(send, path, [number]) for number in numbers)


def close():
    asking.close()


@cache
def _client():
    # Not the SDK's own client: its delays (1.3.0) are milliseconds without a unit, which the server
    # (1.7.12) refuses.
    return asking.enter(httpx.AsyncClient(base_url=os.environ["BENCH_RESTATE"], http2=True))


async def _send(client, path, numbers, due=None, handler="mark"):
    delay = {} if due is None else {"delay": f"{max(0, round(1e3 * (due - time.time())))}ms"}
    order = {"path": path, "numbers": numbers}
    (await client.post(f"/bench/{handler}/send", params=delay, json=order)).raise_for_status()


def _register():
    """Register the service at the server, as its command line does."""
    where = json.dumps({"uri": f"http://{os.environ['BENCH_RESTATE_APP']}"}).encode()
    url = f"{os.environ['BENCH_RESTATE_ADMIN']}/deployments"
    with urlopen(Request(url, where, {"Content-Type": "application/json"})) as answer:
        answer.read()


if __name__ == "__main__":
    _register()
