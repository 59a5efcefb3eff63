"""A client of the simulated cluster, which tries nodes in turn until one gives a final answer."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from rota.core.errors import Kind, Refused
from rota.core.vocabulary.commands import Command
from rota.core.vocabulary.decision import Reply
from rota.node.runtime.wiring import NodeWiring
from rota.node.shards.local_shards import Shards
from rota.node.shards.shard import Shard
from sim.cluster.machine import Machine, Request
from sim.cluster.world import World

TRY_S = 2.0
"""Time limit of a try; its request may still take effect later."""
PATIENCE_S = 15.0
"""Time limit of all tries of a request."""
PAUSES_S = (0.05, 0.2, 0.5)


@dataclass(frozen=True, slots=True)
class Response:
    """The final answer to a request.

    Attributes:
        answer: None if the effect of the request is unknown.
        is_certain: Whether every try but the last certainly had no effect.
        at: When the answer arrived, in microseconds since the world began.
    """

    answer: object
    is_certain: bool
    at: int

    @property
    def is_unknown(self) -> bool:
        """Whether the request may have taken effect, or may still do."""
        return self.answer is None


class Client:
    """One of a world's clients.

    Args:
        world: Where it is.
        chance: Its own.
    """

    def __init__(self, world: World, chance: Random) -> None:
        self._world = world
        self._chance = chance
        self._favourite: Machine | None = None

    async def command(self, of: Callable[[Shards], Shard], command: Command) -> Response:
        """Submit a command to the primary of a shard, with retries."""

        async def ask(wiring: NodeWiring) -> Reply:
            shards = wiring.context.shards
            return await shards.ask(of(shards), command)

        return await self.request(ask)

    async def request(self, request: Request) -> Response:
        """Send *request* to nodes in turn until one gives a final answer."""
        loop = self._world.loop
        deadline = loop.time() + PATIENCE_S
        is_certain = True
        while loop.time() < deadline:
            machine = self._next_machine()
            answer = await self._try(machine, request)
            if answer is not None and not _is_temporary(answer):
                self._favourite = machine
                return Response(answer, is_certain, loop.now)
            # After a refusal too: a node that gave the shard up may have decided before.
            is_certain = False
            self._favourite = None
            await asyncio.sleep(self._chance.choice(PAUSES_S))
        return Response(None, is_certain=False, at=loop.now)

    async def _try(self, machine: Machine, request: Request) -> object:
        answered: asyncio.Future[object] = self._world.loop.create_future()

        def on_answer(answer: object) -> None:
            if not answered.done():
                answered.set_result(answer)

        self._world.links.carry_request(lambda: machine.ask(request, on_answer))
        try:
            async with asyncio.timeout(TRY_S):
                return await answered
        except TimeoutError:
            return None

    def _next_machine(self) -> Machine:
        machines = list(self._world.machines.values())
        return self._favourite or self._chance.choice(machines)


def _is_temporary(answer: object) -> bool:
    return isinstance(answer, Refused) and answer.kind in (Kind.UNAVAILABLE, Kind.TOO_MANY)
