"""Quotas of namespaces: at a quota, requests are refused and fires are skipped.

The quota is for the whole cluster. A shard has its own use exactly, and that of the other shards
in its situation (`rota.core.vocabulary.quotas`). What exists is never ended because of a quota.
"""

from rota.core.errors import Kind, Refused
from rota.core.quoting import in_quotes
from rota.core.state.draft import Draft


def refuse_job_over_quota(draft: Draft, namespace: str) -> None:
    """Refuse a new job in a namespace that has as many jobs as its quota allows.

    Raises:
        Refused: Code ``quota_exceeded``.
    """
    found = draft.situation.quotas.get(namespace)
    if found and (full := found.full_of_jobs(draft.use_of(namespace))):
        raise _exceeded(
            f"namespace {in_quotes(namespace)} has {full}; delete jobs that are not needed, or ask "
            "an administrator for a larger quota"
        )


def refuse_execution_over_quota(draft: Draft, namespace: str) -> None:
    """Refuse a request for an execution in a namespace whose quota of executions is used up.

    Raises:
        Refused: Code ``quota_exceeded``.
    """
    if full := full_quota(draft, namespace):
        raise _exceeded(
            f"{full}; try again when some have finished, or ask an administrator for a larger quota"
        )


def full_quota(draft: Draft, namespace: str) -> str:
    """Return the quota of executions that is used up, in words; empty if one may begin."""
    found = draft.situation.quotas.get(namespace)
    full = found.full(draft.use_of(namespace)) if found else ""
    return full and f"namespace {in_quotes(namespace)} has {full}"


def _exceeded(detail: str) -> Refused:
    return Refused(Kind.CONFLICT, "quota_exceeded", detail)
