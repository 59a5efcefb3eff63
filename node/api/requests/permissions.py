"""Permissions of operations: the required verb, and the source of the namespace."""

from dataclasses import dataclass
from enum import Enum

from rota.node.access.verbs import Verb


class Scope(Enum):
    """Source of the namespace in which an operation requires its verb."""

    PUBLIC = "public"
    """No namespace: every caller may use the operation, without authentication."""
    ANYONE = "anyone"
    """No namespace: every authenticated caller may use the operation."""
    LOCAL = "local"
    """No namespace: the user of the node may use the operation, on the node's unix socket."""
    CLUSTER = "cluster"
    """The whole cluster; checked before the handler runs."""
    OBJECT = "object"
    """The object that the request is about; its handler calls `RequestContext.authorize`."""
    EACH = "each"
    """Each object of the request or of the response; the handler refuses or omits each by itself,
    with `RequestContext.authorize` or `RequestContext.may_see`."""


@dataclass(frozen=True, slots=True)
class Permission:
    """The permission that an operation requires.

    Attributes:
        verb: The verb; None if the scope needs none.
        scope: The source of the namespace.
        alternatives: Verbs of the whole cluster that suffice instead of *verb*.
    """

    verb: Verb | None
    scope: Scope
    alternatives: tuple[Verb, ...] = ()


PUBLIC = Permission(None, Scope.PUBLIC)
ANYONE = Permission(None, Scope.ANYONE)
LOCAL = Permission(None, Scope.LOCAL)


def in_cluster(verb: Verb, *alternatives: Verb) -> Permission:
    """Return the permission of an operation on the whole cluster; one of the verbs suffices."""
    return Permission(verb, Scope.CLUSTER, alternatives)


def on_object(verb: Verb) -> Permission:
    """Return the permission of an operation on an object with a namespace."""
    return Permission(verb, Scope.OBJECT)


def on_each(verb: Verb) -> Permission:
    """Return the permission of an operation on objects of several namespaces."""
    return Permission(verb, Scope.EACH)
