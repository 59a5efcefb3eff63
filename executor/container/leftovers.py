"""Removal of containers that remain after a restart and are not resumed."""

import asyncio
import os
from collections.abc import Container, Mapping

from rota.core.model.attempt import AttemptKey
from rota.executor.container.creation import STORE_LABEL, key_of
from rota.executor.container.engine import Engine, host_in


async def remove_leftovers(
    engine: Engine, store_id: str, *, spared: Container[AttemptKey] = ()
) -> list[AttemptKey]:
    """Remove the containers of *store_id* in any state, and return their attempts.

    Args:
        engine: The engine of the containers.
        store_id: The id of the data directory, by which the containers are labelled.
        spared: Attempts that are resumed; read again before each removal.

    Raises:
        EngineError: Some containers may remain.
    """
    removed: list[AttemptKey] = []
    for listed in await engine.find({STORE_LABEL: store_id}):
        key = key_of(listed.labels)
        if key is not None and key not in spared:
            await engine.remove(listed.id)
            removed.append(key)
    return removed


def end_containers(store_id: str, environ: Mapping[str, str] = os.environ) -> list[AttemptKey]:
    """Kill and remove the containers of *store_id* that have not ended, and return their attempts.

    Called by the guard after the end of a warden, like `rota.executor.kernel.orphans.end_orphans`;
    it blocks. Ended containers stay for the next warden, which reports how they ended.

    Args:
        store_id: The id of the data directory, by which the containers are labelled.
        environ: The environment, which may name the engine in ``DOCKER_HOST``.

    Raises:
        EngineError: Some containers may remain.
    """
    return asyncio.run(_end_containers(store_id, Engine(host_in(environ))))


async def _end_containers(store_id: str, engine: Engine) -> list[AttemptKey]:
    ended: list[AttemptKey] = []
    try:
        for listed in await engine.find({STORE_LABEL: store_id}):
            key = key_of(listed.labels)
            if key is not None and listed.state != "exited":
                await engine.remove(listed.id)
                ended.append(key)
    finally:
        await engine.close()
    return ended
