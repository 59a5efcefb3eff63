"""The namespaces that have documents, compiled."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import msgspec

from rota.core.decoding import UNDECODABLE
from rota.core.errors import Kind, Problem, Refused, invalid_fields
from rota.core.model.attempt import Order
from rota.core.model.ids import namespace_of
from rota.core.model.job import JobSpec
from rota.core.model.permitted_binds import BY_POLICY
from rota.core.model.shared_document import NAMESPACES, Definition, DocumentKey, SharedDocument
from rota.core.quoting import in_quotes
from rota.node.namespaces.policy import OPEN, Policy, policy_of
from rota.wire.documents import Json, NamespaceBody

log = logging.getLogger(__name__)

DEFAULT = "default"
NOTHING = Policy(executors=())
"""The policy of a namespace whose document this version cannot read: no task runs."""

NO_DEFAULTS: Mapping[str, Json] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    """A namespace with a document.

    Attributes:
        defaults: Fields of jobs for the jobs that do not have them.
        policy: What its tasks may do; None for the default policy.
        secrets_max: The most secrets; None if there is no limit.
    """

    defaults: Mapping[str, Json]
    policy: Policy | None
    secrets_max: int | None = None


class UnknownNamespace(Refused):
    """The namespace has no document, and the setting ``unknown_namespaces`` refuses such ones.

    Args:
        name: The namespace.
    """

    def __init__(self, name: str) -> None:
        super().__init__(
            Kind.INVALID,
            "unknown_namespace",
            f"there is no namespace {in_quotes(name)}; check the name, or ask an administrator to "
            "create it: `rota apply` of a document of the kind namespace",
        )


class Namespaces:
    """The namespaces that have documents; a use costs a look-up in a dict.

    Args:
        refuses_unknown: Whether namespaces without a document are refused, except ``default``.
        labels: The labels of this node.
        default_policy: The policy of namespaces that have none in a document.
    """

    def __init__(
        self, *, refuses_unknown: bool, labels: Mapping[str, str], default_policy: Policy = OPEN
    ) -> None:
        self._default_policy = default_policy
        self._refuses_unknown = refuses_unknown
        self._labels = labels
        self._by_name: dict[str, Namespace] = {}

    def policy_of(self, namespace: str) -> Policy:
        """Return the policy of a namespace."""
        found = self._by_name.get(namespace)
        return found.policy if found and found.policy else self._default_policy

    def defaults_of(self, namespace: str) -> Mapping[str, Json]:
        """Return the fields of jobs for the jobs of a namespace that do not have them."""
        found = self._by_name.get(namespace)
        return found.defaults if found else NO_DEFAULTS

    def secrets_max_of(self, namespace: str) -> int | None:
        """Return the most secrets of a namespace; None if there is no limit."""
        found = self._by_name.get(namespace)
        return found.secrets_max if found else None

    def check(self, spec: JobSpec) -> None:
        """Check a job that is to be saved.

        Raises:
            Refused: Code ``unknown_namespace``; or ``policy_violation``, with a pointer to each
                field that the policy does not allow.
        """
        namespace = spec.namespace
        is_unknown = namespace not in self._by_name and namespace != DEFAULT
        if is_unknown and self._refuses_unknown:
            raise UnknownNamespace(namespace)
        policy = self.policy_of(namespace)
        problems = [
            Problem(
                f"{f'/tasks/{number}' if len(spec.tasks) > 1 else ''}{each.pointer}",
                f"{each.detail} (policy of the namespace {in_quotes(namespace)})",
            )
            for number, task in enumerate(spec.tasks)
            for each in (
                *policy.problems_of(task.work),
                *policy.problems_of_selector(task.selector),
            )
        ]
        if problems:
            raise invalid_fields("policy_violation", problems)

    def why_not(self, order: Order) -> str:
        """Return why an attempt may not run; empty if it may.

        An order of an older node has no name of its job: its work was checked when it was saved.
        """
        if not order.job:
            return ""
        namespace = namespace_of(order.job)
        policy = self.policy_of(namespace)
        problem = next(policy.problems_of(order.work), None)
        if problem is not None:
            return f"{BY_POLICY} {in_quotes(namespace)}: {problem.detail}"
        if label := policy.lacks(self._labels):
            return f"{BY_POLICY} {in_quotes(namespace)}: this node lacks the label {label}"
        return ""

    def permitted_binds(self, order: Order) -> tuple[str, ...] | None:
        """Return the folders that an attempt may bind; None for all that the node permits."""
        return self.policy_of(namespace_of(order.job)).binds if order.job else None

    def changed(self, key: DocumentKey, document: SharedDocument | None) -> None:
        """Take the new record of a document; None if the record was removed."""
        if key.kind != NAMESPACES:
            return
        if document is None or document.definition is None:
            self._by_name.pop(key.name, None)
            return
        self._by_name[key.name] = _compiled(document, document.definition)


def _compiled(document: SharedDocument, definition: Definition) -> Namespace:
    try:
        body = msgspec.convert(definition, NamespaceBody)
        return Namespace(
            defaults=body.defaults,
            policy=policy_of(body) if body.policy else None,
            secrets_max=body.quota.secrets,
        )
    except (*UNDECODABLE, ValueError) as error:
        log.error(
            "document of a namespace not understood: no task runs in it",
            extra={"document": document.name, "reason": str(error)},
        )
        return Namespace(defaults=NO_DEFAULTS, policy=NOTHING)
