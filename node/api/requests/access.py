"""Who asks, and may they: the one place where a request's principal is established and checked.

There is no authentication yet. Until there is, a node listens on loopback, where whoever can
connect can start processes anyway, or was told ``--insecure``; every request is the operator's.
"""

from dataclasses import dataclass
from enum import Enum

from aiohttp import web

from rota.core.errors import Kind, Refused


class Verb(Enum):
    """What a request wants to do."""

    READ = "read"
    WRITE = "write"
    RUN = "run"
    """Make or end executions."""
    OPERATE = "operate"
    """Change which nodes there are, and what they are to hold."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks.

    Attributes:
        verbs: What they may do, in every namespace.
    """

    name: str
    verbs: frozenset[Verb]

    def may(self, verb: Verb, namespace: str) -> bool:
        """Tell whether *verb* is allowed in *namespace*."""
        del namespace
        return verb in self.verbs


OPERATOR = Principal("operator", frozenset(Verb))
PRINCIPAL: web.RequestKey[Principal] = web.RequestKey("principal", Principal)


def establish(request: web.Request) -> Principal:
    """Return who makes *request*; called once for each, before anything else looks at it."""
    del request
    return OPERATOR


def check(request: web.Request, verb: Verb, namespace: str) -> None:
    """Let *request* pass if its principal may do this.

    Raises:
        Refused: They may not.
    """
    principal = request[PRINCIPAL]
    if not principal.may(verb, namespace):
        raise Refused(
            Kind.FORBIDDEN,
            "forbidden",
            f"{principal.name} may not {verb.value} in namespace {namespace!r}",
        )
