"""The warden's server: hosts executors, enforces the deadlines of attempts, keeps their outcomes.

The states of an attempt, from its launch until its node reports that the outcome is recorded:

    launched --> runs --> ended --> forgotten
                  |         ^
                  +---------+  by itself, stopped, or killed because its group's time was over

All work is on one loop. What happens in one turn is written to the journal first, then sent to the
node, each with one write. If the loop stalls, a watchdog enforces the deadlines.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from rota.core.model.attempt import AttemptKey, Ending, Order, Outcome, Report
from rota.core.timing.instants import SECOND, Duration, Instant
from rota.executor.executor import merged
from rota.executor.masking import forms_of, masked_ending, masked_report
from rota.executor.secret_values import NO_SECRETS, SecretValues
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
CHECK_S = 0.25
"""The longest time between two checks of groups: the loop's clock stops while the machine is
suspended, but the groups' clock does not."""
IDLE_S = 10.0
"""The time that a warden without node and attempts waits for a node: a node restarts faster."""
LAST_MESSAGES_S = 0.2
"""The time for the last messages of an ended process, which are in a buffer of this machine."""
RESUMED_FOR = Duration(5 * SECOND)
"""The time that a resumed attempt may run until its node extends it."""


@dataclass(slots=True)
class _Held:
    group: str
    order: Order
    ending: Ending | None = None
    report: Report | None = None
    is_fenced: bool = False
    secrets: SecretValues = NO_SECRETS
    """The values for its start; then only their forms are kept."""
    masks: tuple[bytes, ...] = ()


Request = Launch | Allow | Stop | Forget | Read | Expire | OnDeath | Beat


class Server:
    """The work of one warden, from `run` until it returns.

    Args:
        environment: The arguments of its executors.
        journal: The journal of the warden; attempts in it are resumed.
        elapsed: The clock of lease groups, CLOCK_BOOTTIME.
        watchdog: The watchdog, which gets every deadline before any call that may block.
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
        """The launches of this turn, written to the journal together before any of them starts."""
        self._outputs = Outputs(self._hosts, answer=self._send)
        self._connection: FromNode | None = None
        self._node: NodeProcess | None = None
        self._on_death: tuple[OnDeathRequest, ...] = ()
        """The requests to be sent after the end of the node's process."""
        self._posting: set[asyncio.Task[None]] = set()
        """The asyncio tasks that send death notices."""
        self._unsent: list[ToNode] = []
        self._newly_reported: set[AttemptKey] = set()
        """The attempts with a report that is not yet sent to the node."""
        self._is_flush_planned = False
        self._retiring: Duration | None = None
        self._is_over = asyncio.Event()

    async def run(self) -> None:
        """Serve until `Retire`, or until there is neither a node nor an attempt."""
        self._resume_held()
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
            for task in (idle, *self._posting):
                task.cancel()
        if self._connection is not None:
            self._connection.close()

    def retire(self, grace: Duration) -> None:
        """End all attempts within *grace* each, and then `run`; the journal keeps the endings."""
        self._retiring = grace
        self._is_over.set()

    def _resume_held(self) -> None:
        """Resume the attempts that the previous warden held."""
        for kept in self._journal.kept:
            held = self._held[kept.order.key] = _Held(kept.group, kept.order, kept.ending)
            if held.ending is None:
                self._groups.allow(held.group, Instant(self._elapsed() + RESUMED_FOR))
                self._began(held)
                self._update_watchdog()
                self._start_or_resume(held, is_new=False)

    async def _end_when_idle(self) -> None:
        idle_s = 0.0
        while idle_s < IDLE_S:
            await asyncio.sleep(1)
            is_node_there = self._node is not None and self._node.lives
            idle_s = 0.0 if is_node_there or self._running_count else idle_s + 1
        log.info("warden idle")
        self._is_over.set()

    # -- the node -------------------------------------------------------------------------------

    def receive(self, connection: FromNode, message: ToWarden) -> None:
        """Process a message; most only from the newest connection that sent `Hello`."""
        if isinstance(message, Hello):
            self._greet(connection, message)
        elif isinstance(message, Retire):
            # Also from a node of another version, whose other messages are ignored.
            self.retire(message.grace)
        elif connection is self._connection:
            self._handle(message)

    def batch_received(self) -> None:
        """Continue after all messages received together have been processed."""
        self._update_watchdog()
        self._launch_all()

    def lost(self, connection: FromNode) -> None:
        """Process the end of a connection."""
        if connection is self._connection:
            self._connection = None
            self._unsent.clear()
            log.info("connection lost")
            if self._node is not None and not self._node.lives:
                self._send_on_death()

    def _greet(self, connection: FromNode, hello: Hello) -> None:
        # Unread messages of the previous connection must not take effect: the node is about to get
        # the list of held attempts, which cannot include their effects.
        if self._connection is not None:
            self._connection.abort()
        self._unsent.clear()
        self._connection = None
        met = Met(VERSION, self._made_of)
        if hello.version != VERSION:
            connection.write([met])
            return
        self._watch(connection.pid)
        self._connection = connection
        self._newly_reported.clear()
        self._unsent += [Held(each.order, each.ending, each.report) for each in self._held.values()]
        self._send(met)

    def _watch(self, pid: int) -> None:
        """Watch a node's process instead of the previous one."""
        if self._node is not None:
            self._node.check()  # The next node may connect before its end is handled on the loop.
            if self._node.lives and self._node.pid == pid:
                return
            self._node.close()
        self._on_death = ()
        self._node = NodeProcess(pid, self._loop, self._on_node_death)

    def _on_node_death(self) -> None:
        """Send the death notices of an ended process, after all of its messages are processed.

        The end of its connection comes after them, so an attempt that is not held by then was never
        started and never will be.
        """
        if self._connection is None:
            self._send_on_death()
        else:
            # The connection ends by itself, unless another process holds the node's end of it.
            self._loop.call_later(LAST_MESSAGES_S, self._connection.abort)

    def _send_on_death(self) -> None:
        """Send the death notices that the node prepared, after the end of its process."""
        requests, self._on_death = self._on_death, ()
        if requests:
            task = self._group.create_task(post_all(requests, tuple(self._held)))
            self._posting.add(task)
            task.add_done_callback(self._posting.discard)

    def _handle(self, message: Request) -> None:
        match message:
            case Launch(group=group, order=order, secrets=secrets):
                self._launch(group, order, secrets)
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
                self._send(Beaten())

    # -- attempts -------------------------------------------------------------------------------

    def _launch(self, group: str, order: Order, secrets: SecretValues) -> None:
        if order.key in self._held:
            return
        held = self._held[order.key] = _Held(
            group, order, secrets=secrets, masks=forms_of(secrets.all)
        )
        self._journal.started(group, order)
        self._began(held)
        self._to_launch.append(held)

    def _launch_all(self) -> None:
        if not self._to_launch:
            return
        self._update_watchdog()
        self._journal.write()
        to_launch, self._to_launch = self._to_launch, []
        for held in to_launch:
            # Checked only here, because the process may have been blocked until the time was over
            # (R35).
            if self._groups.has_time(held.group, self._elapsed()) and self._retiring is None:
                self._start_or_resume(held, is_new=True)
            else:
                held.is_fenced = True
                self._ended(held.order.key, self._never_ran(Outcome.CANCELLED, FENCED))

    def _start_or_resume(self, held: _Held, *, is_new: bool) -> None:
        """Start or resume an attempt in its executor."""
        try:
            executor = self._hosts.get(held.order.work.executor)
        except NotHosted as error:
            outcome = Outcome.FAILED if is_new else Outcome.LOST
            self._ended(held.order.key, self._never_ran(outcome, str(error)))
            return
        if is_new:
            secrets, held.secrets = held.secrets, NO_SECRETS
            executor.launch(held.order, secrets)
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
            # Another attempt may have been started after the deadline, so this is not a success.
            ending = replace(ending, outcome=Outcome.CANCELLED, reason=FENCED)
        ending, held.masks = masked_ending(ending, held.masks), ()
        held.ending = ending
        self._running_count -= 1
        self._groups.remove(held.group, key)
        self._journal.ended(key, ending)
        self._send(Ended(key, ending))

    def _forget(self, key: AttemptKey) -> None:
        held = self._held.get(key)
        if held is not None and held.ending is not None:
            del self._held[key]
            self._journal.forgotten(key)
            self._plan_flush()

    def _reported(self, key: AttemptKey, report: Report) -> None:
        held = self._held.get(key)
        if held is not None:
            held.report = merged(held.report, masked_report(report, held.masks))
            self._newly_reported.add(key)
            self._plan_flush()

    def _never_ran(self, outcome: Outcome, reason: str) -> Ending:
        now = self._now()
        return Ending(outcome=outcome, started_at=now, finished_at=now, reason=reason)

    # -- time -----------------------------------------------------------------------------------

    def _fence(self) -> None:
        """Kill attempts without time left (PROTOCOL R37), and plan the next check."""
        now, fenced = self._elapsed(), list[_Held]()
        for key in self._groups.due(now):
            held = self._held[key]
            if not held.is_fenced:
                held.is_fenced = True
                self._stop(key, Duration(0))
                fenced.append(held)
        ends_at = self._watchdog.due_at = self._groups.next_end_after(now)
        left_s = CHECK_S if ends_at is None else (ends_at - now) / SECOND
        self._loop.call_later(min(CHECK_S, left_s), self._fence)
        for held in fenced:  # Last, because the log is a file, and its disk may hang.
            log.warning(
                "attempt fenced", extra={"attempt": str(held.order.key), "group": held.group}
            )

    def _update_watchdog(self) -> None:
        """Pass the next deadline to the watchdog, in case the loop is blocked."""
        self._watchdog.due_at = self._groups.next_end_after(self._elapsed())

    # -- messages to the node -------------------------------------------------------------------

    def _send(self, message: ToNode) -> None:
        self._unsent.append(message)
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
            # The next connection gets all held attempts.
            self._unsent.clear()
        elif not connection.is_full:
            unsent, self._unsent = [*self._take_reports(), *self._unsent], []
            connection.write_encoded(list(_encoded(unsent)))

    def _take_reports(self) -> list[ToNode]:
        keys, self._newly_reported = self._newly_reported, set()
        reports = [(key, self._held[key].report) for key in keys if key in self._held]
        return [Reported(key, report) for key, report in reports if report is not None]

    def may_write(self) -> None:
        """Continue to send after the connection was full."""
        self._plan_flush()


def _encoded(messages: Iterable[ToNode]) -> Iterator[bytes]:
    """Yield *messages* encoded; messages that cannot be encoded are logged and left out."""
    for message in messages:
        try:
            yield encode(message)
        except UNENCODABLE as error:
            kind = type(message).__name__
            log.error("message not sent", extra={"message_kind": kind, "reason": str(error)})
