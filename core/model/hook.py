"""Hooks of a job: webhooks, and jobs to be triggered, that follow the events of its executions.

A hook posts a webhook, or triggers another job of the namespace. The notification of a webhook is a
record of the shard, kept until its delivery has ended, so that it outlives any node.
"""

from collections.abc import Iterator
from enum import Enum
from typing import Annotated
from urllib.parse import urlsplit

import msgspec

from rota.core.errors import Problem
from rota.core.model.checked_fields import CheckedExecutionId, CheckedFullName, CheckedJobId
from rota.core.model.ids import NAME_RULE, ExecutionId, JobId, is_full_name
from rota.core.quoting import in_quotes
from rota.core.timing.instants import Instant, format_instant

HOOKS_MAX = 20
"""Hooks of one job."""
URL_LENGTH_MAX = 2_000
"""Characters of a URL; proxies refuse longer ones."""
REASON_MAX = 1_000
"""Characters of the reason in an event; the record of the execution has the whole reason."""
DOCUMENT_BYTES_MAX = 8_192
"""Upper bound of the length of an event in JSON, whatever characters are escaped."""


class HookEvent(Enum):
    """The events that a hook may follow; the API's field for *failure* is ``onFailure``."""

    FAILURE = "failure"
    SUCCESS = "success"
    RECOVERY = "recovery"
    """An execution succeeded, and the execution of the job that ended before it failed."""
    LATE = "late"
    """An execution has not ended ``lateAfter`` its fire time, or a fire time was missed."""


class HookOutcome(Enum):
    """The end of a hook's run."""

    DELIVERED = "delivered"
    """The receiver of the webhook has answered with a status of 200 to 299, or the job runs."""
    FAILED = "failed"
    """The webhook was not delivered, and no further attempt is made."""
    DROPPED = "dropped"
    """The hook was not run: too many events wait, or the job to be triggered cannot run."""


class HookFormat(Enum):
    """The bodies of webhooks."""

    STANDARD = "standard"
    """The event, by the rules of Standard Webhooks."""
    SLACK = "slack"
    TEAMS = "teams"
    DISCORD = "discord"


class Hook(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One hook of a job, as defined.

    Attributes:
        event: The event that the hook follows.
        webhook: The URL to which the event is posted; empty for a hook that triggers a job.
        job: The full name of the job that is triggered with the event as parameters.
        format: The body of the webhook.
    """

    event: HookEvent
    webhook: str = ""
    job: str = ""
    format: HookFormat = HookFormat.STANDARD


class JobEventDocument(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"
):
    """An event of a job, as hooks get it: the ``data`` of a webhook, the parameters of a job.

    Attributes:
        event: The value of the `HookEvent`.
        job: The full name of the job.
        job_id: The id of the job.
        execution_id: The id of the execution. For a missed fire time, it is the id that the
            execution would have; there is no such execution.
        status: The status of the execution; ``missed`` for a missed fire time.
        trigger: The origin of the execution.
        fire_time: The time at which the execution was due, as RFC 3339 in UTC.
        started_at: The time at which its first attempt started; empty before.
        finished_at: The time at which it ended; empty before.
        reason: The reason of its status, cut to `REASON_MAX` characters.
    """

    event: str
    job: str
    job_id: str
    execution_id: str
    status: str
    trigger: str
    fire_time: str
    started_at: str = ""
    finished_at: str = ""
    reason: str = ""


class Notification(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The event of a job for one webhook, kept until its delivery has ended.

    Attributes:
        key: The key of the record: execution, event and number of the hook. A receiver detects a
            repetition by the key.
        job_id: The id of the job.
        job: The full name of the job.
        execution_id: The id of the execution; see `JobEventDocument`.
        event: The event that the hook follows.
        at: The shard time of the event.
        url: The URL of the webhook.
        document: The event as JSON (`JobEventDocument`).
        format: The body of the webhook.
    """

    key: str
    job_id: CheckedJobId
    job: CheckedFullName
    execution_id: CheckedExecutionId
    event: HookEvent
    at: Instant
    url: str
    document: Annotated[str, msgspec.Meta(max_length=DOCUMENT_BYTES_MAX)]
    format: HookFormat = HookFormat.STANDARD


def notification_key(execution_id: ExecutionId, event: HookEvent, number: int) -> str:
    """Return the key of the notification for the hook *number*, from 0, of the job."""
    return f"{execution_id}.{event.value}.{number}"


def owner_of(key: str) -> JobId:
    """Return the job whose event the notification *key* is about."""
    return JobId(key[:16])


def origin_of(url: str) -> str:
    """Return scheme, host and port of *url*: its path often holds a secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def text_of(instant: Instant) -> str:
    """Return *instant* as RFC 3339; empty for 0."""
    return format_instant(instant) if instant else ""


def problems_of_hooks(hooks: tuple[Hook, ...], full_name: str) -> Iterator[Problem]:
    """Yield the errors in the hooks of the job *full_name*, with pointers into the job's body."""
    if len(hooks) > HOOKS_MAX:
        detail = f"the job has {len(hooks)} hooks; at most {HOOKS_MAX} are allowed"
        yield Problem(pointer_of(hooks[0].event), detail)
    numbers = dict.fromkeys(HookEvent, 0)
    for hook in hooks:
        pointer = f"{pointer_of(hook.event)}/{numbers[hook.event]}"
        numbers[hook.event] += 1
        yield from _problems_of_hook(hook, full_name, pointer)


def pointer_of(event: HookEvent) -> str:
    """Return the pointer to the hooks of *event* in the API's body of a job."""
    return f"/on{event.value.capitalize()}"


def _problems_of_hook(hook: Hook, full_name: str, pointer: str) -> Iterator[Problem]:
    if bool(hook.webhook) == bool(hook.job):
        problem = "has both a webhook and a job" if hook.webhook else "has no webhook and no job"
        yield Problem(pointer, f"the hook {problem}; give one of them")
    elif hook.webhook:
        fault = _fault_of_url(hook.webhook)
        if fault:
            yield Problem(f"{pointer}/webhook", f"{in_quotes(hook.webhook)} {fault}")
    elif hook.format is not HookFormat.STANDARD:
        detail = "the format is that of a webhook; leave it out, or give a webhook"
        yield Problem(f"{pointer}/format", detail)
    elif not is_full_name(hook.job):
        detail = f"{in_quotes(hook.job)} is not NAMESPACE/NAME; each has {NAME_RULE}"
        yield Problem(f"{pointer}/job", detail)
    elif hook.job == full_name:
        detail = f"{in_quotes(hook.job)} is this job, which its own hook cannot trigger"
        yield Problem(f"{pointer}/job", f"{detail}; name another job")
    elif hook.job.partition("/")[0] != (own := full_name.partition("/")[0]):
        detail = f"{in_quotes(hook.job)} is in another namespace; name a job of {in_quotes(own)}"
        yield Problem(f"{pointer}/job", detail)


_NO_URL = "is not a URL such as https://hooks.example.com/rota, with a port from 1 to 65535 if any"


def _fault_of_url(url: str) -> str:
    """Return what is wrong with the URL of a webhook; empty for a good one."""
    if len(url) > URL_LENGTH_MAX:
        return f"has {len(url)} characters; at most {URL_LENGTH_MAX} are allowed"
    if not url.isascii() or not url.isprintable() or " " in url:
        return "has characters that must be percent-encoded"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:  # Its text is about Python's conversions.
        return _NO_URL
    if parts.scheme not in ("http", "https") or not host or port == 0:
        return _NO_URL
    if parts.username is not None or parts.password is not None:
        return "has a user or a password, which readers of the job would see; leave it out"
    return ""
