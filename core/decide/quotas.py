"""Quotas of namespaces: at a quota, requests are refused and fires are skipped.

The quota is for the whole cluster. A shard has its own use exactly, and that of the other shards
in its situation. What exists is never ended because of a quota.
"""

from rota.core.errors import Kind, Refused
from rota.core.quoting import in_quotes
from rota.core.state.draft import Draft
from rota.core.vocabulary.quotas import Use


def refuse_job_over_quota(draft: Draft, namespace: str) -> None:
    """Refuse a new job in a namespace that has as many jobs as its quota allows.

    Raises:
        Refused: Code ``quota_exceeded``.
    """
    quota = draft.situation.facts.quotas.get(namespace)
    if quota and (full := quota.full_of_jobs(_use_of(draft, namespace))):
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
    quota = draft.situation.facts.quotas.get(namespace)
    full = quota.full(_use_of(draft, namespace)) if quota else ""
    return full and f"namespace {in_quotes(namespace)} has {full}"


def _use_of(draft: Draft, namespace: str) -> Use:
    return draft.use_of(namespace).plus(draft.situation.use_elsewhere(namespace))


def _exceeded(detail: str) -> Refused:
    return Refused(Kind.CONFLICT, "quota_exceeded", detail)
