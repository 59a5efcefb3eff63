"""Reports of the use of namespaces to the other nodes, for quotas.

    this node                       every other member
      ReportUse ---------------------->      the use of each namespace with a quota, in the shards
                                             of which the sender is the primary

A node sends a report when its use has changed, at most every `REPORT_EVERY`, and otherwise every
`REPEAT_EVERY`, since messages may be lost. So the jobs and executions that begin on several nodes
within about `REPORT_EVERY` can exceed a quota; those on one node cannot.
"""

import asyncio

from rota.core.model.ids import NodeId, Session
from rota.core.timing.instants import SECOND, Duration, Instant, later
from rota.node.cluster.membership import Membership
from rota.node.facts.shared_facts import SharedFacts
from rota.node.peers.messages import USES_MAX, ReportUse
from rota.node.peers.network import Network
from rota.node.shards.local_shards import Shards
from rota.node.system.clock import Clock

REPORT_EVERY = SECOND
REPEAT_EVERY = Duration(5 * SECOND)


class UseReporter:
    """Sends the use of the namespaces with quotas to the other members.

    Args:
        facts: Has the quotas.
        shards: The shards of this node.
        membership: Has the members and the session of this node.
        network: The network to the other nodes.
        clock: Measures the time since the last report.
    """

    def __init__(
        self,
        facts: SharedFacts,
        shards: Shards,
        membership: Membership,
        network: Network,
        clock: Clock,
    ) -> None:
        self._facts = facts
        self._shards = shards
        self._membership = membership
        self._network = network
        self._clock = clock
        self._sent: tuple[ReportUse, dict[NodeId, Session]] | None = None
        self._sent_at = Instant(0)

    async def run(self) -> None:
        """Report the use until cancelled."""
        while True:
            await asyncio.sleep(REPORT_EVERY / SECOND)
            if self._facts.present().quotas:
                self._report(await self._uses())

    async def _uses(self) -> dict[str, tuple[int, int]]:
        """Return the use of the namespaces with quotas; after each shard, other work may run."""
        uses: dict[str, tuple[int, int]] = {}
        for shard in self._shards:
            await asyncio.sleep(0)
            if not shard.is_open:
                continue
            state = shard.state
            for namespace in self._facts.present().quotas:
                jobs, executions = state.use_of(namespace)
                if jobs or executions:
                    before = uses.get(namespace, (0, 0))
                    uses[namespace] = before[0] + jobs, before[1] + executions
        return uses

    def _report(self, uses: dict[str, tuple[int, int]]) -> None:
        # Above the limit, the rest of the namespaces counts on each node alone.
        first = dict(sorted(uses.items())[:USES_MAX])
        report = ReportUse(session=self._membership.session, uses=first)
        sessions, now = dict(self._membership.sessions), self._clock.elapsed()
        # A node that has just begun its session has no report yet.
        if (report, sessions) == self._sent and now < later(self._sent_at, REPEAT_EVERY):
            return
        self._sent, self._sent_at = (report, sessions), now
        for node_id in sessions:
            if node_id != self._membership.node_id:
                self._network.send(node_id, None, report)
