"""Users: they make jobs, trigger, cancel, pause, resume, replace and delete, and remember it all.

What happens to one job is asked for by one user, one thing after another, so that what it has to
be in the end follows from what its user was told.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import msgspec

from rota.core.errors import Kind, Refused
from rota.core.model.execution import FINAL_EXECUTION_STATES, ExecutionStatus
from rota.core.model.ids import ExecutionId, JobId
from rota.core.model.job import JobSpec
from rota.core.vocabulary.commands import (
    Cancel,
    Command,
    DeleteJob,
    Idempotency,
    PauseJob,
    ResumeJob,
    SaveJob,
    Trigger,
)
from rota.core.vocabulary.decision import Done, JobSaved, Triggered
from rota.node.runtime.wiring import NodeWiring
from rota.node.shards.local_shards import Shards
from rota.node.shards.shard import Shard
from sim.cluster.client import Client, Told
from sim.cluster.jobs import draw_job, draw_script
from sim.cluster.world import World

LONGEST_MS = 20_000
"""An attempt that was triggered may take longer than a lease of attempts."""
JOBS_MAX = 6
"""Jobs that one user has at a time."""


@dataclass(slots=True)
class Triggering:
    """An execution that a user asked for.

    Attributes:
        number: Its mark, which is in its parameters.
        execution_id: None if no answer came.
        cancelled_at: When its user was told that it is cancelled; microseconds of true time.
        seen: How it ended, when its user looked.
    """

    number: int
    execution_id: ExecutionId | None = None
    cancelled_at: int | None = None
    seen: ExecutionStatus | None = None


@dataclass(slots=True)
class Story:
    """What a user did to a job, and was told.

    Attributes:
        job_id: None if nobody answered when it was made.
        is_certain: Every try had a known end, so that none can still take effect.
        is_there: Whether it exists; None if nobody knows.
        is_replaced: Whether it may have had another version.
        is_paused: None if nobody knows.
    """

    spec: JobSpec
    job_id: JobId | None = None
    is_certain: bool = True
    is_there: bool | None = None
    is_replaced: bool = False
    is_paused: bool | None = False
    triggers: list[Triggering] = field(default_factory=list[Triggering])


class User:
    """One user.

    Args:
        world: Where.
        number: From 0.
    """

    def __init__(self, world: World, number: int) -> None:
        self.stories: list[Story] = []
        self._world = world
        self._number = number
        self._chance = Random(world.chance.getrandbits(64))
        self._client = Client(world, self._chance)
        self._count = 0
        self._has_pools = world.plan.has_pools

    async def live(self) -> None:
        """Do one thing after another, until there is to be quiet."""
        acts = [self._trigger] * 5 + [self._look] * 2
        acts += [self._cancel, self._pause, self._resume, self._replace, self._delete]
        while not self._world.is_quiet:
            await asyncio.sleep(self._chance.choice([0.05, 0.3, 1.0]))
            own = [each for each in self.stories if each.is_there and each.job_id]
            if not own or (len(own) < JOBS_MAX and self._chance.random() < 0.3):
                await self._make()
            else:
                await self._chance.choice(acts)(self._chance.choice(own))

    async def quiet(self) -> None:
        """Pause all own jobs, however long that takes."""
        for story in self.stories:
            while story.job_id is None and story.is_there is None:
                await self._save(story)
            story.is_paused = None
            while story.job_id and story.is_there is not False and story.is_paused is None:
                await self._pause(story)

    # -- what a user does -----------------------------------------------------------------------

    async def _make(self) -> None:
        self._count += 1
        upstreams = [each.spec.full_name for each in self.stories if each.is_there]
        spec = draw_job(
            self._chance, f"u{self._number}-{self._count}", upstreams, has_pools=self._has_pools
        )
        story = Story(spec)
        self.stories.append(story)
        await self._save(story)

    async def _save(self, story: Story) -> None:
        """Have a job made; asked again, one that was made and nobody told of is the answer."""
        told = await self._do(story, SaveJob(spec=story.spec))
        if isinstance(told.answer, JobSaved):
            story.job_id, story.is_there = told.answer.job_id, True
        elif not told.is_unknown:
            story.is_there = False

    async def _replace(self, story: Story) -> None:
        spec = draw_job(self._chance, story.spec.name, [], has_pools=self._has_pools)
        story.is_replaced = True
        told = await self._do(story, SaveJob(spec=spec, may_replace=True))
        if isinstance(told.answer, JobSaved):
            story.spec = spec

    async def _delete(self, story: Story) -> None:
        assert story.job_id is not None
        story.is_there = None
        told = await self._do(story, DeleteJob(job_id=story.job_id))
        if isinstance(told.answer, Done) or _is_missing(told):
            story.is_there = False

    async def _pause(self, story: Story) -> None:
        assert story.job_id is not None
        told = await self._do(story, PauseJob(job_id=story.job_id, by="a user"))
        story.is_paused = None if told.is_unknown else True

    async def _resume(self, story: Story) -> None:
        assert story.job_id is not None
        told = await self._do(story, ResumeJob(job_id=story.job_id))
        story.is_paused = None if told.is_unknown else False

    async def _trigger(self, story: Story) -> None:
        assert story.job_id is not None
        self._count += 1
        triggering = Triggering(self._count * 100 + self._number)
        script = draw_script(self._chance, LONGEST_MS) | {"output": mark(triggering.number)}
        key = f"trigger-{triggering.number}"
        story.triggers.append(triggering)
        command = Trigger(
            job_id=story.job_id,
            parameters=msgspec.json.encode(script).decode(),
            idempotency=Idempotency(key=key, digest=key),
        )
        told = await self._do(story, command)
        if isinstance(told.answer, Triggered):
            triggering.execution_id = told.answer.execution_id
        elif isinstance(told.answer, Refused):
            story.triggers.remove(triggering)

    async def _cancel(self, story: Story) -> None:
        known = [each for each in story.triggers if each.execution_id and not each.cancelled_at]
        if known:
            triggering = self._chance.choice(known)
            assert triggering.execution_id is not None
            told = await self._do(story, Cancel(execution_id=triggering.execution_id))
            if isinstance(told.answer, Done) or _is_missing(told):
                triggering.cancelled_at = told.at

    async def _look(self, story: Story) -> None:
        """Look how an execution goes: once it has ended, it never is otherwise (I14)."""
        known = [each for each in story.triggers if each.execution_id]
        if not known:
            return
        triggering = self._chance.choice(known)
        execution_id = triggering.execution_id
        assert execution_id is not None

        async def status(wiring: NodeWiring) -> ExecutionStatus | None:
            shard = wiring.context.shards.of_id(execution_id)
            live = shard.state.executions.get(execution_id)
            await wiring.context.shards.settled(shard)
            found = live or wiring.context.history.execution(shard.id, execution_id)
            return found.status if found else ExecutionStatus.QUEUED

        told = await self._client.request(status)
        if told.answer in FINAL_EXECUTION_STATES:
            assert isinstance(told.answer, ExecutionStatus)
            triggering.seen = triggering.seen or told.answer

    # -- how it is asked ------------------------------------------------------------------------

    async def _do(self, story: Story, command: Command) -> Told:
        told = await self._client.command(_shard_of(story.spec), command)
        what = "operations not answered" if told.is_unknown else "operations acknowledged"
        self._world.counts[what] += 1
        self._world.note(type(command).__name__, story.spec.name, repr(told.answer))
        story.is_certain = story.is_certain and told.is_certain
        return told


def mark(number: int) -> str:
    """Return what is in the parameters of a triggered execution, and of no other."""
    return f"trigger {number}."


def _shard_of(spec: JobSpec) -> Callable[[Shards], Shard]:
    return lambda shards: shards.of_name(spec.namespace, spec.name)


def _is_missing(told: Told) -> bool:
    return isinstance(told.answer, Refused) and told.answer.kind is Kind.NOT_FOUND
