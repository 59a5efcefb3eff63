"""Use of the namespaces that have quotas, in the shards of this node and on other nodes."""

from collections.abc import Sequence

from rota.core.model.ids import NodeId
from rota.core.replication.authority.liveness import Liveness
from rota.core.vocabulary.quotas import NO_USE, Use
from rota.node.peers.messages import ReportUse
from rota.node.shards.shard import Shard


class QuotaUse:
    """The use of namespaces on the other nodes, by their last reports.

    A report counts while its sender has the session of the report: after that, other nodes are the
    primaries of its shards, and report them.

    Args:
        liveness: Has the sessions of the other nodes.
    """

    def __init__(self, liveness: Liveness) -> None:
        self._liveness = liveness
        self._reports: dict[NodeId, ReportUse] = {}

    def take(self, sender: NodeId, report: ReportUse) -> None:
        """Replace the report of another node; those of nodes that have left are dropped."""
        self._reports[sender] = report
        if len(self._reports) > 2 * len(self._liveness.sessions):
            is_gone = self._liveness.is_gone
            left = [each for each, old in self._reports.items() if is_gone(each, old.session)]
            for each in left:
                del self._reports[each]

    @property
    def report_count(self) -> int:
        """The number of reports that are kept."""
        return len(self._reports)

    def in_cluster(
        self, namespace: str, shards: Sequence[Shard], *, without: Shard | None = None
    ) -> Use:
        """Return the use of a namespace that has a quota, in the whole cluster.

        Args:
            namespace: The namespace.
            shards: The shards of this node.
            without: A shard that is not counted; None to count all.
        """
        total = NO_USE
        for sender, report in self._reports.items():
            if namespace in report.uses and not self._liveness.is_gone(sender, report.session):
                total = total.plus(Use(*report.uses[namespace]))
        for shard in shards:
            if shard is not without and shard.is_open:
                total = total.plus(shard.state.use_of(namespace))
        return total
