"""Simulated users, which create, trigger, pause and delete jobs, and record the answers.

All requests about a job come from one user, one after the other, so that the answers determine the
job's state at the end.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import msgspec
from msgspec.structs import replace

from rota.core.errors import Kind, Refused
from rota.core.model.backfill import Backfill, FireOrder, Reprocess
from rota.core.model.execution import FINAL_EXECUTION_STATES, ExecutionStatus
from rota.core.model.flow import WaitForEvent
from rota.core.model.ids import ExecutionId, JobId
from rota.core.model.job import JobSpec
from rota.core.timing.instants import DAY, Instant
from rota.core.vocabulary.commands import (
    BackfillAction,
    Cancel,
    Command,
    ControlBackfill,
    DeleteJob,
    Idempotency,
    PauseJob,
    PostEvent,
    Rerun,
    RerunScope,
    ResumeJob,
    SaveJob,
    StartBackfill,
    Trigger,
)
from rota.core.vocabulary.decision import Done, JobSaved, Received, Triggered
from rota.node.runtime.wiring import NodeWiring
from rota.node.shards.local_shards import Shards
from rota.node.shards.shard import Shard
from sim.cluster.client import Client, Response
from sim.cluster.jobs import EVENT, draw_job, draw_script
from sim.cluster.outside_events import CHANNEL, SentEvent, event_command, listener
from sim.cluster.world import World

LONGEST_MS = 20_000
"""A triggered attempt may take longer than an attempt's lease."""
JOBS_MAX = 6
"""Jobs that one user has at a time."""


@dataclass(slots=True)
class Triggering:
    """An execution that a user triggered.

    Attributes:
        number: Its mark, which is in its parameters.
        execution_id: None if no answer came.
        cancelled_at: When its user got the answer to a cancel; microseconds of true time.
        seen: Its final state, as its user read it.
    """

    number: int
    execution_id: ExecutionId | None = None
    cancelled_at: int | None = None
    seen: ExecutionStatus | None = None


@dataclass(slots=True)
class Story:
    """A user's requests about a job, and their answers.

    Attributes:
        job_id: None if its creation got no answer.
        is_certain: Every try had a known end, so that none can still take effect.
        is_there: Whether it exists; None if unknown.
        is_replaced: Whether it may have had another version.
        is_paused: None if unknown.
        is_listener: Whether events from outside start it; it is then left alone.
    """

    spec: JobSpec
    job_id: JobId | None = None
    is_certain: bool = True
    is_there: bool | None = None
    is_replaced: bool = False
    is_paused: bool | None = False
    is_listener: bool = False
    triggers: list[Triggering] = field(default_factory=list[Triggering])
    backfills: list[str] = field(default_factory=list[str])


class User:
    """One user.

    Args:
        world: The simulated cluster.
        number: From 0.
    """

    def __init__(self, world: World, number: int) -> None:
        self.stories: list[Story] = []
        self.events: list[SentEvent] = []
        self._world = world
        self._number = number
        self._chance = Random(world.chance.getrandbits(64))
        self._client = Client(world, self._chance)
        self._count = 0
        self._has_pools = world.plan.has_pools
        self._has_reruns = world.plan.has_reruns
        self._has_hooks = world.plan.has_hooks

    async def live(self) -> None:
        """Send random requests, one after the other, until the world is to be quiet."""
        acts = [self._trigger] * 5 + [self._look] * 2
        acts += [self._cancel, self._pause, self._resume, self._replace, self._delete]
        acts += [self._rerun] * 4 + [self._backfill] if self._has_reruns else []
        acts += [self._emit] * 3 if self._has_hooks else []
        if self._has_hooks:
            listening = Story(listener(f"u{self._number}-listener"), is_listener=True)
            self.stories.append(listening)
            await self._save(listening)
        while not self._world.is_quiet:
            await asyncio.sleep(self._chance.choice([0.05, 0.3, 1.0]))
            there = [each for each in self.stories if each.is_there and each.job_id]
            own = [each for each in there if not each.is_listener]
            if not own or (len(own) < JOBS_MAX and self._chance.random() < 0.3):
                await self._make()
            else:
                await self._chance.choice(acts)(self._chance.choice(own))

    async def quiet(self) -> None:
        """Pause all own jobs, and resume their backfills, however long that takes."""
        for story in self.stories:
            while story.job_id is None and story.is_there is None:
                await self._save(story)
            if story.is_listener:
                continue
            story.is_paused = None
            while story.job_id and story.is_there is not False and story.is_paused is None:
                await self._pause(story)
            for name in story.backfills if story.is_there is not False else ():
                await self._resume_backfill(story, name)

    async def _resume_backfill(self, story: Story, name: str) -> None:
        """Resume a backfill that may be paused, until the answer is known."""
        assert story.job_id is not None
        command = ControlBackfill(
            job_id=story.job_id, backfill_id=name, action=BackfillAction.RESUME
        )
        while (await self._do(story, command)).is_unknown:
            pass

    # -- operations -----------------------------------------------------------------------------

    async def _make(self) -> None:
        self._count += 1
        others = (each for each in self.stories if not each.is_listener)
        upstreams = [each.spec.full_name for each in others if each.is_there]
        spec = self._draw_job(f"u{self._number}-{self._count}", upstreams)
        story = Story(spec)
        self.stories.append(story)
        await self._save(story)

    def _draw_job(self, name: str, upstreams: list[str]) -> JobSpec:
        return draw_job(
            self._chance,
            name,
            upstreams,
            has_pools=self._has_pools,
            has_reruns=self._has_reruns,
            has_hooks=self._has_hooks,
        )

    async def _save(self, story: Story) -> None:
        """Create a job; a repeated request is answered with the job of an unanswered one."""
        response = await self._do(story, SaveJob(spec=story.spec))
        if isinstance(response.answer, JobSaved):
            story.job_id, story.is_there = response.answer.job_id, True
        elif not response.is_unknown:
            story.is_there = False

    async def _replace(self, story: Story) -> None:
        spec = self._draw_job(story.spec.name, [])
        story.is_replaced = True
        response = await self._do(story, SaveJob(spec=spec, may_replace=True))
        if isinstance(response.answer, JobSaved):
            story.spec = spec

    async def _delete(self, story: Story) -> None:
        assert story.job_id is not None
        story.is_there = None
        response = await self._do(story, DeleteJob(job_id=story.job_id))
        if isinstance(response.answer, Done) or _is_missing(response):
            story.is_there = False

    async def _pause(self, story: Story) -> None:
        assert story.job_id is not None
        response = await self._do(story, PauseJob(job_id=story.job_id, by="a user"))
        story.is_paused = None if response.is_unknown else True

    async def _resume(self, story: Story) -> None:
        assert story.job_id is not None
        response = await self._do(story, ResumeJob(job_id=story.job_id))
        story.is_paused = None if response.is_unknown else False

    async def _trigger(self, story: Story) -> None:
        job_id = story.job_id
        assert job_id is not None

        def trigger(parameters: str, idempotency: Idempotency) -> Command:
            return Trigger(job_id=job_id, parameters=parameters, idempotency=idempotency)

        await self._start(story, trigger)

    async def _rerun(self, story: Story) -> None:
        """Run an execution again that may have finished."""
        known = [each.execution_id for each in story.triggers if each.execution_id]
        if not known:
            return
        execution_id = self._chance.choice(known)
        scope = self._chance.choice(list(RerunScope))
        is_latest = self._chance.random() < 0.5

        async def past(wiring: NodeWiring) -> Rerun | None:
            shard, history = wiring.context.shards.of_id(execution_id), wiring.context.history
            await wiring.context.shards.settled(shard)
            found = history.execution(shard.id, execution_id)
            if found is None:
                return None
            tasks = history.tasks(shard.id, execution_id)
            version = history.version(shard.id, found.job_id, found.job_version)
            return Rerun(
                past=found,
                tasks=tuple(tasks.values()),
                scope=scope,
                first=[*tasks][-1],  # Of a graph, so that others are kept.
                definition=None if is_latest else version,
            )

        response = await self._client.request(past)
        if isinstance(command := response.answer, Rerun):
            await self._start(
                story,
                lambda parameters, idempotency: replace(
                    command, parameters=parameters, idempotency=idempotency
                ),
            )

    async def _backfill(self, story: Story) -> None:
        """Start a backfill, or pause, resume or cancel one."""
        job_id = story.job_id
        assert job_id is not None
        action = self._chance.choice([None, None, None, *BackfillAction])
        if story.backfills and action is not None:
            name = self._chance.choice(story.backfills)
            await self._do(story, ControlBackfill(job_id=job_id, backfill_id=name, action=action))
            return
        self._count += 1
        backfill = Backfill(
            id=f"{self._count * 100 + self._number:016x}",
            job_id=job_id,
            since=Instant(DAY),
            until=Instant(2 * DAY),
            reprocess=Reprocess.ALL,
            order=FireOrder.OLDEST_FIRST,
            parallel=self._chance.randrange(1, 4),
            total=0,
            created_at=Instant(0),
        )
        times = tuple(Instant(DAY + number) for number in range(self._chance.randrange(6)))

        async def start(wiring: NodeWiring) -> StartBackfill:
            known = wiring.context.shards.of_id(job_id).state.backfills.get(job_id, ())
            return StartBackfill(backfill=backfill, times=times, known=tuple(known))

        response = await self._client.request(start)
        if isinstance(command := response.answer, StartBackfill):
            story.backfills.append(backfill.id)
            await self._do(story, command)

    async def _start(self, story: Story, command_of: Callable[[str, Idempotency], Command]) -> None:
        """Send a command that creates one execution with a mark in its parameters."""
        self._count += 1
        triggering = Triggering(self._count * 100 + self._number)
        script = draw_script(self._chance, LONGEST_MS) | {"output": mark(triggering.number)}
        key = f"trigger-{triggering.number}"
        story.triggers.append(triggering)
        parameters = msgspec.json.encode(script).decode()
        command = command_of(parameters, Idempotency(key=key, digest=key))
        response = await self._do(story, command)
        if isinstance(response.answer, Triggered):
            triggering.execution_id = response.answer.execution_id
            if any(isinstance(each.wait, WaitForEvent) for each in story.spec.tasks):
                event = PostEvent(execution_id=response.answer.execution_id, name=EVENT, data=b"7")
                await self._client.command(_shard_of(story.spec), event)
        elif isinstance(response.answer, Refused):
            story.triggers.remove(triggering)

    async def _emit(self, story: Story) -> None:
        """Send an event, which starts the listeners of all users."""
        del story
        self._count += 1
        event_id = f"{self._number}-{self._count}"
        namespace, _, name = CHANNEL.partition("/")
        response = await self._client.command(
            lambda shards: shards.of_name(namespace, name), event_command(event_id)
        )
        jobs = response.answer.jobs if isinstance(response.answer, Received) else None
        self.events.append(SentEvent(event_id, jobs))

    async def _cancel(self, story: Story) -> None:
        known = [each for each in story.triggers if each.execution_id and not each.cancelled_at]
        if known:
            triggering = self._chance.choice(known)
            assert triggering.execution_id is not None
            response = await self._do(story, Cancel(execution_id=triggering.execution_id))
            if isinstance(response.answer, Done) or _is_missing(response):
                triggering.cancelled_at = response.at

    async def _look(self, story: Story) -> None:
        """Read the state of an execution: a final state never changes (I14)."""
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

        response = await self._client.request(status)
        if response.answer in FINAL_EXECUTION_STATES:
            assert isinstance(response.answer, ExecutionStatus)
            triggering.seen = triggering.seen or response.answer

    # -- requests -------------------------------------------------------------------------------

    async def _do(self, story: Story, command: Command) -> Response:
        response = await self._client.command(_shard_of(story.spec), command)
        what = "operations not answered" if response.is_unknown else "operations acknowledged"
        self._world.counts[what] += 1
        self._world.note(type(command).__name__, story.spec.name, repr(response.answer))
        story.is_certain = story.is_certain and response.is_certain
        return response


def mark(number: int) -> str:
    """Return the mark in the parameters of one triggered execution."""
    return f"trigger {number}."


def _shard_of(spec: JobSpec) -> Callable[[Shards], Shard]:
    return lambda shards: shards.of_name(spec.namespace, spec.name)


def _is_missing(response: Response) -> bool:
    return isinstance(response.answer, Refused) and response.answer.kind is Kind.NOT_FOUND
