"""Secrets of containers, with a real engine: files in memory, and nothing on the engine's disk."""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from msgspec.structs import replace

from contract.executor.container_host import BUSYBOX, live_and_die, make_container_executor
from contract.executor.executor_host import EXECUTION_ID, Host, Scenario, run_scenario, store_id_of
from rota.core.model.attempt import AttemptKey, Ending, Outcome
from rota.core.model.work import SecretNames, Work
from rota.executor.launch.secret_files import folders_of, remove_all
from rota.executor.secret_values import SecretValues
from support.docker import Dockerd, needs_docker

pytestmark = needs_docker

T = TypeVar("T")

VALUES = SecretValues(files={"pg.pass": b"MARKER-of-a-container"})
NAMED = SecretNames(files=(("pg.pass", "db"),))
USES = Work(
    executor="container",
    image=replace(BUSYBOX, user="1000:1000"),
    shell="exec 2>&1; echo up; cat $ROTA_SECRETS/pg.pass; "
    "touch /run/rota-secrets/x || echo read-only; env",
    secrets=NAMED,
)


@pytest.fixture
def folder(dockerd: Dockerd, tmp_path: Path) -> Iterator[Path]:
    """A data directory whose secrets and containers are removed."""
    folder = tmp_path.with_name(f"{tmp_path.name}-data")
    yield folder
    remove_all(store_id_of(folder))
    left = dockerd.containers(f"label=rota.store={store_id_of(folder)}")
    if left:
        dockerd.docker("rm", "--force", *left)


def run(dockerd: Dockerd, folder: Path, scenario: Scenario[T]) -> T:
    return run_scenario("asyncio", make_container_executor(dockerd.host, folder), scenario)


def test_any_user_of_a_container_reads_the_files_and_its_output_is_masked(
    dockerd: Dockerd, folder: Path
) -> None:
    async def scenario(host: Host) -> Ending:
        return await host.ending(host.launch(USES, secrets=VALUES))

    ending = run(dockerd, folder, scenario)

    lines = ending.output.decode().splitlines()
    assert ending.outcome is Outcome.SUCCEEDED, ending
    assert lines[:2] == ["up", "***touch: /run/rota-secrets/x: Read-only file system"]
    assert "read-only" in lines
    assert "ROTA_SECRETS=/run/rota-secrets" in lines
    assert folders_of(store_id_of(folder)) == []


def test_the_engine_keeps_neither_values_nor_output(dockerd: Dockerd, folder: Path) -> None:
    work = replace(USES, shell=f"{USES.shell}; sleep 60")

    async def scenario(host: Host) -> tuple[str, list[Path]]:
        key = host.launch(work, secrets=VALUES)
        await host.output(key, containing=b"ROTA_SECRETS=")
        [container] = dockerd.containers(f"label=rota.store={store_id_of(folder)}")
        inspected = dockerd.docker("inspect", container)
        found = [
            path
            for path in dockerd.folder.rglob("*")
            if container in str(path) and path.is_file() and b"MARKER-of" in path.read_bytes()
        ]
        host.stop(key)
        await host.ending(key)
        return str(inspected), found

    inspected, found = run(dockerd, folder, scenario)

    assert "MARKER-of" not in inspected
    assert found == []


def test_a_container_with_secrets_that_an_earlier_executor_started_is_lost(
    dockerd: Dockerd, folder: Path
) -> None:
    """Its values, by which output is masked, ended with that executor."""
    work = replace(USES, shell="echo up; sleep 60")
    live_and_die(dockerd, folder, work)

    async def scenario(host: Host) -> Ending:
        key = AttemptKey(EXECUTION_ID, "task-1", 1)
        host.resume(work, key=key)
        return await host.ending(key)

    ending = run(dockerd, folder, scenario)

    assert ending.outcome is Outcome.LOST
    assert dockerd.containers(f"label=rota.store={store_id_of(folder)}") == []
