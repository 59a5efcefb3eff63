"""Verbs, and the built-in roles.

Docs: docs/explanation/access.md has both as tables.
"""

from collections.abc import Mapping
from enum import Enum


class Verb(Enum):
    """Permissions that operations require."""

    READ = "read"
    """Read jobs, executions, the ledger and events."""
    LOGS = "logs"
    """Read what attempts wrote: output, results and exceptions."""
    RUN = "run"
    """Trigger, cancel, rerun, pause and resume."""
    WRITE = "write"
    """Define and delete jobs."""
    SECRET_USE = "secret:use"
    """Name secrets in jobs, and list secrets; no verb allows reading their values."""
    SECRET_WRITE = "secret:write"
    """Set and delete secrets."""
    GRANT = "grant"
    """Change the bindings of a namespace."""
    OPERATE = "operate"
    """Change the nodes of the cluster, and the shards that they hold."""
    AUDIT = "audit"
    """Read who changed what."""
    METRICS = "metrics"
    """Read the metrics of a node."""
    ADMIN = "admin"
    """Change keys, roles, namespaces and job types."""


CLUSTER_VERBS = frozenset({Verb.OPERATE, Verb.AUDIT, Verb.METRICS, Verb.ADMIN})
"""Verbs that concern the whole cluster; they are granted in the namespace `EVERY` only."""
EVERY = "*"
"""The pattern of all namespaces; as a namespace, it stands for the whole cluster."""

_VIEWER = frozenset({Verb.READ, Verb.LOGS})
_OPERATOR = _VIEWER | {Verb.RUN}
_EDITOR = _OPERATOR | {Verb.WRITE, Verb.SECRET_USE}

ROLES: Mapping[str, frozenset[Verb]] = {
    "viewer": _VIEWER,
    "operator": _OPERATOR,
    "editor": _EDITOR,
    "admin": _EDITOR | {Verb.SECRET_WRITE, Verb.GRANT},
    "cluster-operator": frozenset({Verb.READ, Verb.OPERATE}),
    "auditor": frozenset({Verb.AUDIT}),
    "metrics": frozenset({Verb.METRICS}),
    "cluster-admin": frozenset(Verb),
}
"""The verbs of each built-in role."""
