"""Principals: the caller of each request, and the check of the caller's permissions.

There is no authentication yet, so every request counts as a request of the operator. A node
therefore listens on loopback, where every caller can start processes anyway, or runs with
``--insecure``.
"""

from dataclasses import dataclass
from enum import Enum

from aiohttp import web

from rota.core.errors import Kind, Refused


class Verb(Enum):
    """Permissions that operations require."""

    READ = "read"
    WRITE = "write"
    RUN = "run"
    """Create or cancel executions."""
    OPERATE = "operate"
    """Change the nodes of the cluster, and the shards that they hold."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller of a request.

    Attributes:
        name: The name of the caller, as in logs and records.
        verbs: The permissions of the caller, in every namespace.
    """

    name: str
    verbs: frozenset[Verb]

    def may(self, verb: Verb, namespace: str) -> bool:
        """Return True if *verb* is permitted in *namespace*."""
        del namespace
        return verb in self.verbs

    def check(self, verb: Verb, namespace: str) -> None:
        """Check that *verb* is permitted in *namespace*; ``*`` stands for all namespaces.

        Raises:
            Refused: Code ``forbidden``: the caller lacks the permission.
        """
        if not self.may(verb, namespace):
            raise Refused(
                Kind.FORBIDDEN,
                "forbidden",
                f"{self.name} lacks the permission {verb.value!r} in namespace {namespace!r}",
            )


OPERATOR = Principal("operator", frozenset(Verb))


def principal_of(http: web.Request) -> Principal:
    """Return the caller of a request; called once for each request, before anything else."""
    del http
    return OPERATOR
