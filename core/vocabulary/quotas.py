"""Quotas of namespaces, as one shard sees them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Use(NamedTuple):
    """The use of a namespace, in one shard, on one node or in the cluster.

    Attributes:
        jobs: The number of jobs.
        executions: The number of unfinished executions.
    """

    jobs: int = 0
    executions: int = 0

    def plus(self, other: "Use") -> "Use":
        """Return the sum of two uses."""
        return Use(self.jobs + other.jobs, self.executions + other.executions)


NO_USE = Use()


class Quota(NamedTuple):
    """The quota of one namespace; None is no limit.

    Attributes:
        jobs: The most jobs in the cluster.
        executions: The most unfinished executions in the cluster.
    """

    jobs: int | None = None
    executions: int | None = None


NO_QUOTA = Quota()


class QuotaOfShard(NamedTuple):
    """The part of a quota that is left to one shard.

    Attributes:
        quota: The quota of the namespace.
        elsewhere: The use of the namespace in all other shards. The use on other nodes is that of
            their last reports.
    """

    quota: Quota
    elsewhere: Use

    def full(self, own: Use) -> str:
        """Return the use of executions if none may begin, in words; empty if one may.

        Args:
            own: The use in the shard itself.
        """
        used, most = self.elsewhere.executions + own.executions, self.quota.executions
        if most is None or used < most:
            return ""
        return f"{used:,} of at most {most:,} unfinished executions"

    def full_of_jobs(self, own: Use) -> str:
        """Return the use of jobs if none may be created, in words; empty if one may."""
        used, most = self.elsewhere.jobs + own.jobs, self.quota.jobs
        return "" if most is None or used < most else f"{used:,} of at most {most:,} jobs"


NO_QUOTAS: Mapping[str, QuotaOfShard] = MappingProxyType({})
