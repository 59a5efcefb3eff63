"""Quotas of namespaces, and their use."""

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

    def full(self, use: Use) -> str:
        """Return the *use* of executions if none may begin, in words; empty if one may."""
        used, most = use.executions, self.executions
        if most is None or used < most:
            return ""
        return f"{used:,} of at most {most:,} unfinished executions"

    def full_of_jobs(self, use: Use) -> str:
        """Return the *use* of jobs if none may be created, in words; empty if one may."""
        used, most = use.jobs, self.jobs
        return "" if most is None or used < most else f"{used:,} of at most {most:,} jobs"


NO_QUOTA = Quota()
