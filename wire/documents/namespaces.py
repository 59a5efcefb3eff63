"""Namespaces: owners, defaults of jobs, policy and pause."""

from typing import Annotated

import msgspec

from rota.wire.documents.document import (
    Body,
    Json,
    Labels,
    LineText,
    PathText,
    ProseText,
    View,
    Word,
)
from rota.wire.documents.tasks import LimitsBody

ITEMS_MAX = 256
COUNT_MAX = 1_000_000_000
"""The largest number in a quota."""

Words = Annotated[list[Word], msgspec.Meta(max_length=ITEMS_MAX)]


class PolicyBody(Body, frozen=True):
    """What tasks of a namespace may do; what is not named is allowed.

    Attributes:
        executors: The executors that tasks may use, such as ``process``; null for all.
        sandbox: The least strict profile of a sandbox: ``none``, ``default`` or ``strict``.
        network: The widest access to the network: ``none``, ``isolated`` (other machines, without
            this machine's loopback) or ``any``.
        binds: Folders of the machine that may be bound, and what is below them; writable with
            ``:rw`` after the folder; null for all.
        users: Users of the machine as which commands without a sandbox may run. All others, and
            Python functions, are then refused: they run as the user of the node. Null for all.
        images: Patterns of the images of containers, with ``*`` and ``?``; null for all.
        limits: The widest limits of an attempt. Each task needs a limit of its own, at most as
            large; null for any.
        nodes: Labels of the nodes on which tasks run. Each task needs them in its
            ``nodeSelector``.
    """

    executors: Words | None = None
    sandbox: Word = "none"
    network: Word = "any"
    binds: Annotated[list[PathText], msgspec.Meta(max_length=ITEMS_MAX)] | None = None
    users: Words | None = None
    images: Annotated[list[LineText], msgspec.Meta(max_length=ITEMS_MAX)] | None = None
    limits: LimitsBody | None = None
    nodes: Labels = {}


class QuotaBody(Body, frozen=True):
    """The quota of a namespace, in the whole cluster; null is no limit.

    Attributes:
        jobs: The most jobs.
        executions: The most unfinished executions: running, queued and waiting ones.
        secrets: The most secrets.
    """

    jobs: Annotated[int, msgspec.Meta(ge=0, le=COUNT_MAX)] | None = None
    executions: Annotated[int, msgspec.Meta(ge=0, le=COUNT_MAX)] | None = None
    secrets: Annotated[int, msgspec.Meta(ge=0, le=COUNT_MAX)] | None = None


class UseView(View, frozen=True):
    """The use of one part of a quota.

    Attributes:
        most: The limit; null for none.
        used: The number that the namespace has; null if the nodes do not count it, because the
            namespace has no quota.
    """

    most: int | None
    used: int | None


class QuotaView(View, frozen=True):
    """The quota of a namespace and its use.

    Attributes:
        namespace: The namespace.
        jobs: Its jobs.
        executions: Its unfinished executions.
        secrets: Its secrets.
    """

    namespace: str
    jobs: UseView
    executions: UseView
    secrets: UseView


class NamespacePauseBody(Body, frozen=True):
    """The pause of a namespace.

    Attributes:
        at: The time of its begin.
        by: The principal who paused the namespace.
        reason: The reason, which ledgers repeat; may be empty.
    """

    at: Word = ""
    by: Word = ""
    reason: LineText = ""


class NamespaceBody(Body, frozen=True):
    """A namespace.

    Attributes:
        description: What it is for.
        owners: The people or teams to contact; they get no permission by it.
        defaults: Fields of jobs, such as ``retries``, ``timeout`` and ``labels``, for the jobs that
            do not have them when they are saved.
        policy: What its tasks may do; null for the policy of the setting ``default_policy``.
        quota: How much the namespace may have.
        pause: The pause; null if executions may begin. It is set and ended by operations of its
            own: a replacement of the document keeps the pause as it is.
    """

    description: ProseText = ""
    owners: Words = []
    defaults: Annotated[dict[Word, Json], msgspec.Meta(max_length=ITEMS_MAX)] = {}
    policy: PolicyBody | None = None
    quota: QuotaBody = QuotaBody()
    pause: NamespacePauseBody | None = None
