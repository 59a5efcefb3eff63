"""Simulated administrators, who create and revoke keys, and checks of which keys nodes accept.

docs/explanation/access.md has the rules, in "Between nodes":

    A1  the node that revoked a key refuses the key from then on, in the same life
    A2  every node that could read the coordinator for `LEARNS_WITHIN` refuses a revoked key
    A3  such a node also refuses a request of a revoked key that another node forwards, whatever
        documents that node has
    A4  such a node accepts a key that was created, and not revoked
"""

import asyncio
from dataclasses import dataclass
from random import Random

from rota.core.errors import Kind, Refused
from rota.core.model.shared_document import DocumentKey
from rota.core.timing.instants import SECOND
from rota.node.access.access_table import KEYS
from rota.node.access.forwarded_principal import form_of, principal_in
from rota.node.coordination.coordinator_errors import CoordinatorUnavailable, OutcomeUnknown
from rota.node.runtime.wiring import NodeWiring
from rota.wire.tokens import ID_BYTES, SECRET_BYTES, Token, mint
from sim.cluster.checks import Violation
from sim.cluster.client import Client
from sim.cluster.machine import Life, Machine
from sim.cluster.world import World

LEARNS_WITHIN = 8 * SECOND
"""Time after which a node has the changes at a coordinator that it can read: a pause after an
error, a comparison, and a step of the watch, each with the delays of a bad link."""
KEYS_MAX = 4
"""Keys that one administrator has at a time."""


@dataclass(slots=True)
class Key:
    """A key of an administrator.

    Attributes:
        name: The name of its document.
        token: Its only token.
        created_at: When its creation was answered, in microseconds of true time; None before.
        revoking_at: When its revocation was first requested; None before.
        revoked_at: When its revocation was answered; None before.
        revoked_by: The life of the node that answered.
    """

    name: str
    token: Token
    created_at: int | None = None
    revoking_at: int | None = None
    revoked_at: int | None = None
    revoked_by: Life | None = None


class Administrator:
    """One administrator, who creates and revokes keys, one request after the other.

    Args:
        world: The simulated cluster.
        number: From 0.
    """

    def __init__(self, world: World, number: int) -> None:
        self.keys: list[Key] = []
        self._world = world
        self._number = number
        self._chance = Random(world.chance.getrandbits(64))
        self._client = Client(world, self._chance)

    async def live(self) -> None:
        """Create and revoke keys until the world is to be quiet."""
        while not self._world.is_quiet:
            await asyncio.sleep(self._chance.choice([0.05, 0.3, 1.0, 3.0]))
            own = [each for each in self.keys if each.created_at and not each.revoking_at]
            if len(own) < KEYS_MAX and self._chance.random() < 0.5:
                await self._create()
            elif own:
                await self._revoke(self._chance.choice(own))

    async def _create(self) -> None:
        token = mint(self._chance.randbytes(ID_BYTES + SECRET_BYTES))
        key = Key(f"key-{self._number}-{len(self.keys)}", token)
        self.keys.append(key)
        tokens = [{"id": token.id, "hash": token.hash}]
        if await self._change(key, {"principal": key.name, "tokens": tokens}):
            key.created_at = self._world.now()

    async def _revoke(self, key: Key) -> None:
        key.revoking_at = self._world.now()
        life = await self._change(key, None)
        if life is not None:
            key.revoked_at, key.revoked_by = self._world.now(), life
            self._world.counts["keys revoked"] += 1

    async def _change(self, key: Key, definition: dict[str, object] | None) -> Life | None:
        """Change the document of *key*; return the life that answered, None if none is certain."""

        async def ask(wiring: NodeWiring) -> Life | None:
            documents, found = wiring.cluster.documents, DocumentKey(KEYS, key.name)
            if definition is None and documents.get(found) is None:
                raise Refused(Kind.NOT_FOUND, "document_not_found", key.name)
            try:
                await documents.change(found, definition, by="admin")
            except (CoordinatorUnavailable, OutcomeUnknown) as error:
                raise Refused(Kind.UNAVAILABLE, "coordinator_unavailable", str(error)) from error
            return life_of(self._world, wiring)

        response = await self._client.request(ask)
        # An earlier try of a creation may take effect after the revocation.
        is_known = definition is None or response.is_certain
        return response.answer if is_known and isinstance(response.answer, Life) else None


def life_of(world: World, wiring: NodeWiring) -> Life | None:
    """Return the life of a node's wiring; None if it has ended."""
    lives = (machine.life for machine in world.machines.values())
    return next((life for life in lives if life and life.wiring is wiring), None)


class AccessChecks:
    """The checks of which keys the nodes accept.

    Args:
        world: The simulated cluster.
        administrators: Those who have the keys.
    """

    def __init__(self, world: World, administrators: list[Administrator]) -> None:
        self._world = world
        self._administrators = administrators
        self._server_down_at = 0

    async def look(self) -> None:
        """Look at all keys and all nodes again and again, until cancelled.

        Raises:
            Violation: Of A1, A2, A3 or A4.
        """
        while True:
            await asyncio.sleep(0.1)
            if not self._world.server.is_up:
                self._server_down_at = self._world.now()
            for administrator in self._administrators:
                for key in administrator.keys:
                    await self._see(key)

    async def _see(self, key: Key) -> None:
        for machine in self._world.machines.values():
            if machine.life is None or machine.wiring is None:
                continue
            accepts = self._accepts(machine, key)
            if accepts and key.revoked_at is not None and machine.life is key.revoked_by:
                raise Violation(f"A1: {machine.id} accepts {key.name}, which it revoked")
            if accepts and self._has_learned(machine, key.revoked_at):
                raise Violation(f"A2: {machine.id} accepts the revoked {key.name}")
            is_there = key.created_at is not None and key.revoking_at is None
            if is_there and not accepts and self._has_learned(machine, key.created_at):
                raise Violation(f"A4: {machine.id} refuses {key.name}, which exists")
            if accepts and key.revoked_at is not None:
                self._world.counts["revoked keys accepted by nodes that were cut off"] += 1
                await self._see_forwarded(machine, key)

    async def _see_forwarded(self, sender: Machine, key: Key) -> None:
        """A3: a node that a cut-off node forwards a request to refuses the revoked key."""
        assert sender.wiring is not None
        table = sender.wiring.context.access.table
        (credential,) = table.credentials(key.token.id)
        principal = table.principal(
            credential.principal, credential.token_id, (f"principal:{key.name}",)
        )
        form = form_of(principal, table.revision)
        for receiver in list(self._world.machines.values()):
            wiring = receiver.wiring
            if wiring is None or not self._has_learned(receiver, key.revoked_at):
                continue
            try:
                await principal_in(form, wiring.context.access.table)
            except Refused:
                self._world.counts["forwarded requests of revoked keys refused"] += 1
                continue
            what = f"a forwarded request of the revoked {key.name}"
            raise Violation(f"A3: {receiver.id} accepts {what} from {sender.id}")

    @staticmethod
    def _accepts(machine: Machine, key: Key) -> bool:
        assert machine.wiring is not None
        return bool(machine.wiring.context.access.table.credentials(key.token.id))

    def _has_learned(self, machine: Machine, changed_at: int | None) -> bool:
        """Return True if a node has had time to learn of a change."""
        if changed_at is None or machine.is_paused:
            return False
        last = max(
            changed_at,
            machine.began_at,
            max((ended for _, ended in machine.pauses), default=0),
            self._world.links.unread_at.get(machine.id, 0),
            self._server_down_at,
        )
        return self._world.now() > last + LEARNS_WITHIN
