"""The warden's server: hosts executors, enforces the time of attempts, keeps their outcomes.

The states of an attempt, from its launch until its node reports that the outcome is recorded:

    launched --> runs --> ended --> forgotten
                  |         ^
                  +---------+  by itself, stopped, or killed because its group's time was over

Everything is on one loop. The messages of one turn go into the journal first, then to the node,
each with one write. If the loop stalls, a watchdog enforces the deadlines.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from rota.core.model.attempt import AttemptKey, Ending, Order, Outcome, Report
from rota.core.timing.instants import SECOND, Duration, Instant
from rota.executor.executor import merged
from rota.executor.warden.connections import FromNode, NodeProcess
from rota.executor.warden.hosted_executors import HostedExecutors, HostEnvironment, NotHosted
from rota.executor.warden.journal import Journal
from rota.executor.warden.lease_groups import LeaseGroups
from rota.executor.warden.messages import (
    UNENCODABLE,
    VERSION,
    Allow,
    Beat,
    Beaten,
    Ended,
    Expire,
    Forget,
    Held,
    Hello,
    Launch,
    Met,
    OnDeath,
    OnDeathRequest,
    Read,
    Reported,
    Retire,
    Stop,
    ToNode,
    ToWarden,
    encode,
)
from rota.executor.warden.on_death_requests import post_all
from rota.executor.warden.output_reader import Outputs
from rota.executor.warden.watchdog import Watchdog

log = logging.getLogger(__name__)

FENCED = "killed, because its node had no right to run it any more"
LOOK_S = 0.25
"""How often, at least, the time of groups is looked at: the loop's clock stands still while the
machine sleeps, and theirs does not."""
IDLE_S = 10.0
"""How long a warden without node and attempts waits for a node: a restart takes less."""
LAST_WORDS_S = 0.2
"""How long what a process said before its end may take to be heard: it is in a buffer here."""
RESUMED_FOR = Duration(5 * SECOND)
"""What an attempt gets that a warden before this one started: its node is about to allow more."""


@dataclass(slots=True)
class _Held:
    group: str
    order: Order
    ending: Ending | None = None
    report: Report | None = None
    is_fenced: bool = False


Obeyed = Launch | Allow | Stop | Forget | Read | Expire | OnDeath | Beat


class Server:
    """The work of one warden, from `run` until it returns.

    Args:
        environment: What its executors are put into.
        journal: Its journal; what that kept is taken up.
        elapsed: CLOCK_BOOTTIME.
        watchdog: Knows of every deadline before anything that may block.
        made_of: See `rota.executor.warden.hosted_executors.digest_of`.
    """

    def __init__(
        self,
        environment: HostEnvironment,
        journal: Journal,
        *,
        elapsed: Callable[[], Instant],
        watchdog: Watchdog,
        made_of: str,
    ) -> None:
        self._now = environment.now
        self._journal = journal
        self._elapsed = elapsed
        self._watchdog = watchdog
        self._made_of = made_of
        self._loop = asyncio.get_running_loop()
        self._hosts = HostedExecutors(environment, ended=self._ended, reported=self._reported)
        self._groups = LeaseGroups()
        self._held: dict[AttemptKey, _Held] = {}
        self._running_count = 0
        self._to_launch: list[_Held] = []
        """What came in this turn: the journal gets it with one write, before any of it starts."""
        self._outputs = Outputs(self._hosts, answer=self._say)
        self._connection: FromNode | None = None
        self._node: NodeProcess | None = None
        self._on_death: tuple[OnDeathRequest, ...] = ()
        """Of that process."""
        self._executing: set[asyncio.Task[None]] = set()
        """Wills."""
        self._said: list[ToNode] = []
        self._news: set[AttemptKey] = set()
        """Attempts whose report the node is still to be told."""
        self._is_flush_planned = False
        self._retiring: Duration | None = None
        self._is_over = asyncio.Event()

    async def run(self) -> None:
        """Serve until `Retire`, or until there is neither a node nor an attempt."""
        self._take_up()
        self._fence()
        async with asyncio.TaskGroup() as group:
            self._group = group
            self._outputs.use(group)
            idle = group.create_task(self._end_when_idle())
            await self._is_over.wait()
            grace = self._retiring or Duration(0)
            await asyncio.gather(*(each.close(grace) for each in self._hosts.made.values()))
            self._flush()
            self._outputs.close()
            for task in (idle, *self._executing):
                task.cancel()
        if self._connection is not None:
            self._connection.close()

    def retire(self, grace: Duration) -> None:
        """End all attempts within *grace* each, and return from `run`; what ended is kept."""
        self._retiring = grace
        self._is_over.set()

    def _take_up(self) -> None:
        """Resume the attempts that the warden before this one held."""
        for kept in self._journal.kept:
            held = self._held[kept.order.key] = _Held(kept.group, kept.order, kept.ending)
            if held.ending is None:
                self._groups.allow(held.group, Instant(self._elapsed() + RESUMED_FOR))
                self._began(held)
                self._tell_watchdog()
                self._give(held, is_new=False)

    async def _end_when_idle(self) -> None:
        idle_s = 0.0
        while idle_s < IDLE_S:
            await asyncio.sleep(1)
            is_node_there = self._node is not None and self._node.lives
            idle_s = 0.0 if is_node_there or self._running_count else idle_s + 1
        log.info("warden idle")
        self._is_over.set()

    # -- the node -------------------------------------------------------------------------------

    def hear(self, connection: FromNode, message: ToWarden) -> None:
        """Process a message; only of the newest connection that sent `Hello`."""
        if isinstance(message, Hello):
            self._meet(connection, message)
        elif isinstance(message, Retire):
            # Also of a node of another version: it cannot say much else to this one.
            self.retire(message.grace)
        elif connection is self._connection:
            self._obey(message)

    def heard(self) -> None:
        """Continue after all messages received together have been processed."""
        self._tell_watchdog()
        self._launch_all()

    def lost(self, connection: FromNode) -> None:
        """Process the end of a connection."""
        if connection is self._connection:
            self._connection = None
            self._said.clear()
            log.info("connection lost")
            if self._node is not None and not self._node.lives:
                self._send_on_death()

    def _meet(self, connection: FromNode, hello: Hello) -> None:
        # What the one before has sent and nobody has read must not be done any more: its node is
        # told to be without it in a moment.
        if self._connection is not None:
            self._connection.abort()
        self._said.clear()
        self._connection = None
        met = Met(VERSION, self._made_of)
        if hello.version != VERSION:
            connection.write([met])
            return
        self._watch(connection.pid)
        self._connection = connection
        self._news.clear()
        self._said += [Held(each.order, each.ending, each.report) for each in self._held.values()]
        self._say(met)

    def _watch(self, pid: int) -> None:
        """Watch a node's process instead of the one before."""
        if self._node is not None:
            self._node.look()  # One that begins as soon as another has ended may be heard first.
            if self._node.lives and self._node.pid == pid:
                return
            self._node.close()
        self._on_death = ()
        self._node = NodeProcess(pid, self._loop, self._on_node_death)

    def _on_node_death(self) -> None:
        """Send the requests of an ended process, after all of its messages are processed.

        The end of its connection comes after them, so attempts not held by then were never started
        and never will be.
        """
        if self._connection is None:
            self._send_on_death()
        else:
            # Only a process that it has left its end of the socket to could keep it open.
            self._loop.call_later(LAST_WORDS_S, self._connection.abort)

    def _send_on_death(self) -> None:
        """Send the requests of the node's process after its end (note 2)."""
        requests, self._on_death = self._on_death, ()
        if requests:
            task = self._group.create_task(post_all(requests, tuple(self._held)))
            self._executing.add(task)
            task.add_done_callback(self._executing.discard)

    def _obey(self, message: Obeyed) -> None:
        match message:
            case Launch(group=group, order=order):
                self._launch(group, order)
            case Allow(until=until):
                for name, instant in until.items():
                    self._groups.allow(name, instant)
            case Stop(key=key, grace=grace):
                self._launch_all()
                self._stop(key, grace)
            case Forget(key=key):
                self._forget(key)
            case Read():
                self._launch_all()
                self._outputs.read(message)
            case Expire():
                self._outputs.expire(message)
            case OnDeath(requests=requests):
                self._on_death = requests
            case Beat():
                self._say(Beaten())

    # -- attempts -------------------------------------------------------------------------------

    def _launch(self, group: str, order: Order) -> None:
        if order.key in self._held:
            return
        held = self._held[order.key] = _Held(group, order)
        self._journal.started(group, order)
        self._began(held)
        self._to_launch.append(held)

    def _launch_all(self) -> None:
        if not self._to_launch:
            return
        self._tell_watchdog()
        self._journal.write()
        to_launch, self._to_launch = self._to_launch, []
        for held in to_launch:
            # As late as this, for a process that stood still since may have no time left (R35).
            if self._groups.may_go_on(held.group, self._elapsed()) and self._retiring is None:
                self._give(held, is_new=True)
            else:
                held.is_fenced = True
                self._ended(held.order.key, self._never_ran(Outcome.CANCELLED, FENCED))

    def _give(self, held: _Held, *, is_new: bool) -> None:
        """Start or resume an attempt in its executor."""
        try:
            executor = self._hosts.get(held.order.work.executor)
        except NotHosted as error:
            outcome = Outcome.FAILED if is_new else Outcome.LOST
            self._ended(held.order.key, self._never_ran(outcome, str(error)))
            return
        if is_new:
            executor.launch(held.order)
        else:
            executor.resume(held.order)

    def _stop(self, key: AttemptKey, grace: Duration | None) -> None:
        held = self._held.get(key)
        if held is not None and held.ending is None:
            self._hosts.get(held.order.work.executor).stop(key, grace=grace)

    def _began(self, held: _Held) -> None:
        self._running_count += 1
        self._groups.add(held.group, held.order.key)

    def _ended(self, key: AttemptKey, ending: Ending) -> None:
        held = self._held[key]
        if held.is_fenced:
            # Another may have been started in its place: from the deadline on it has not succeeded.
            ending = replace(ending, outcome=Outcome.CANCELLED, reason=FENCED)
        held.ending = ending
        self._running_count -= 1
        self._groups.remove(held.group, key)
        self._journal.ended(key, ending)
        self._say(Ended(key, ending))

    def _forget(self, key: AttemptKey) -> None:
        held = self._held.get(key)
        if held is not None and held.ending is not None:
            del self._held[key]
            self._journal.forgotten(key)
            self._plan_flush()

    def _reported(self, key: AttemptKey, report: Report) -> None:
        held = self._held.get(key)
        if held is not None:
            held.report = merged(held.report, report)
            self._news.add(key)
            self._plan_flush()

    def _never_ran(self, outcome: Outcome, reason: str) -> Ending:
        now = self._now()
        return Ending(outcome=outcome, started_at=now, finished_at=now, reason=reason)

    # -- time -----------------------------------------------------------------------------------

    def _fence(self) -> None:
        """Kill what has no time left (PROTOCOL R37); look again when the next time is over."""
        now, fenced = self._elapsed(), list[_Held]()
        for key in self._groups.due(now):
            held = self._held[key]
            if not held.is_fenced:
                held.is_fenced = True
                self._stop(key, Duration(0))
                fenced.append(held)
        ends_at = self._watchdog.due_at = self._groups.next_end_after(now)
        left_s = LOOK_S if ends_at is None else (ends_at - now) / SECOND
        self._loop.call_later(min(LOOK_S, left_s), self._fence)
        for held in fenced:  # Last, for the log is a file, and its disk may hang.
            log.warning(
                "attempt fenced", extra={"attempt": str(held.order.key), "group": held.group}
            )

    def _tell_watchdog(self) -> None:
        """Pass the next deadline to the watchdog, in case the loop stalls."""
        self._watchdog.due_at = self._groups.next_end_after(self._elapsed())

    # -- what there is to say -------------------------------------------------------------------

    def _say(self, message: ToNode) -> None:
        self._said.append(message)
        self._plan_flush()

    def _plan_flush(self) -> None:
        if not self._is_flush_planned:
            self._is_flush_planned = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flush_planned = False
        self._journal.write()
        connection = self._connection
        if connection is None:
            # The next one is told all that is held.
            self._said.clear()
        elif not connection.is_full:
            said, self._said = [*self._take_news(), *self._said], []
            connection.write_encoded(list(_encoded(said)))

    def _take_news(self) -> list[ToNode]:
        news, self._news = self._news, set()
        reports = [(key, self._held[key].report) for key in news if key in self._held]
        return [Reported(key, report) for key, report in reports if report is not None]

    def may_write(self) -> None:
        """Continue to send after the connection was full."""
        self._plan_flush()


def _encoded(messages: Iterable[ToNode]) -> Iterator[bytes]:
    """Yield *messages* encoded, without those that cannot be: each of these is logged."""
    for message in messages:
        try:
            yield encode(message)
        except UNENCODABLE as error:
            kind = type(message).__name__
            log.error("message not sent", extra={"message_kind": kind, "reason": str(error)})
