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
    """Remove the containers of *store_id*, whatever their state, and return whose they were.

    Args:
        engine: Where they are.
        store_id: Whose they are.
        spared: Attempts that somebody goes on with; looked at again before each removal.

    Raises:
        EngineError: Some may be left.
    """
    removed: list[AttemptKey] = []
    for listed in await engine.find({STORE_LABEL: store_id}):
        key = key_of(listed.labels)
        if key is not None and key not in spared:
            await engine.remove(listed.id)
            removed.append(key)
    return removed


def end_containers(store_id: str, environ: Mapping[str, str] = os.environ) -> list[AttemptKey]:
    """Kill and remove the containers of *store_id* that have not ended, and return whose they were.

    For whoever ends what a warden left, as `rota.executor.kernel.orphans.end_orphans` is; it
    blocks. What has ended stays for the next warden, which can still tell how.

    Args:
        store_id: Whose they are.
        environ: Names the engine, ``DOCKER_HOST``.

    Raises:
        EngineError: Some may be left.
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
