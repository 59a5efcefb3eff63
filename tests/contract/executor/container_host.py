"""Shared parts of the container suites: an executor, and one that was killed."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec

from contract.executor.executor_host import FIRE_AT, TOKEN, MakeExecutor, now, store_id_of
from rota.core.model.attempt import AttemptKey, Order
from rota.core.model.ids import NodeId
from rota.core.model.work import Image, Work
from rota.executor.attempt_settings import USUAL, AttemptSettings
from rota.executor.container import ContainerExecutor
from rota.executor.executor import Reported
from support.docker import Dockerd

# Without a network a container starts in half the time.
BUSYBOX = Image(name="busybox", network="none")

_LIFE = """
import asyncio, sys
from contract.executor.container_host import make_container_executor
from contract.executor.executor_host import Host
from pathlib import Path
from rota.core.model.work import Work
import msgspec

async def main():
    host = Host(make_container_executor(sys.argv[2], Path(sys.argv[1])))
    for work in msgspec.json.decode(sys.argv[3], type=list[Work]):
        key = host.launch(work)
        await host.output(key, containing=b"up")
    print("up", flush=True)
    await asyncio.sleep(1000)

asyncio.run(main())
"""


def make_container_executor(
    host: str,
    directory: Path,
    *,
    reported: Reported | None = None,
    call_s: float = 20.0,
    output_bytes_max: int = 10 << 20,
    settings: AttemptSettings = USUAL,
) -> MakeExecutor:
    """Return a maker whose executor marks its containers with *directory*."""
    return lambda ended: ContainerExecutor(
        directory,
        node_id=NodeId("node-a"),
        store_id=store_id_of(directory),
        ended=ended,
        reported=reported,
        now=now,
        environ={"DOCKER_HOST": host},
        settings=settings,
        call_s=call_s,
        output_bytes_max=output_bytes_max,
    )


def order_of(key: AttemptKey, work: Work) -> Order:
    """Return the order with which `contract.executor_host.Host.launch` launches."""
    return Order(key=key, token=TOKEN, work=work, fire_at=FIRE_AT)


def live_and_die(dockerd: Dockerd, directory: Path, *works: Work) -> None:
    """Launch *works* in another process, wait until each has written "up", and kill that process.

    Their tasks are ``task-1``, ``task-2`` and so on.
    """
    root = Path(__file__).resolve().parents[3]
    encoded = msgspec.json.encode(works).decode()
    life = subprocess.Popen(
        (sys.executable, "-P", "-c", _LIFE, str(directory), dockerd.host, encoded),
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{root}/src:{root}/tests"},
    )
    assert life.stdout is not None
    assert life.stdout.readline() == b"up\n"
    life.kill()
    life.communicate()
