"""The namespaces that have documents, compiled."""

import logging

from rota.core.decoding import UNDECODABLE
from rota.core.errors import Kind, Problem, Refused, invalid_fields
from rota.core.model.attempt import Order
from rota.core.model.ids import namespace_of
from rota.core.model.job import JobSpec
from rota.core.model.shared_document import DocumentKey, SharedDocument
from rota.core.quoting import in_quotes
from rota.node.cluster.shared_documents import SharedDocuments
from rota.node.namespaces.policy import ALLOWED, Policy, policy_in

log = logging.getLogger(__name__)

NAMESPACES = "namespaces"
"""The kind of shared documents."""
DEFAULT = "default"
NOTHING = Policy(executors=())
"""The policy of a namespace whose document this version cannot read: no task runs."""


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
    """The policies of all namespaces that have documents.

    Args:
        documents: The shared documents.
        refuses_unknown: Whether namespaces without a document are refused, except ``default``.
    """

    def __init__(self, documents: SharedDocuments, *, refuses_unknown: bool) -> None:
        self._refuses_unknown = refuses_unknown
        self._policies: dict[str, Policy] = {}
        documents.listen(self._changed)

    def policy_of(self, namespace: str) -> Policy:
        """Return the policy of a namespace."""
        return self._policies.get(namespace, ALLOWED)

    def check(self, spec: JobSpec) -> None:
        """Check a job that is to be saved.

        Raises:
            Refused: Code ``unknown_namespace``; or ``policy_violation``, with a pointer to each
                field that the policy does not allow.
        """
        namespace = spec.namespace
        if namespace not in self._policies:
            if self._refuses_unknown and namespace != DEFAULT:
                raise UnknownNamespace(namespace)
            return
        policy = self._policies[namespace]
        problems = [
            Problem(
                f"{f'/tasks/{number}' if len(spec.tasks) > 1 else ''}{each.pointer}",
                f"{each.detail} (policy of the namespace {in_quotes(namespace)})",
            )
            for number, task in enumerate(spec.tasks)
            for each in policy.problems_of(task.work)
        ]
        if problems:
            raise invalid_fields("policy_violation", problems)

    def why_not(self, order: Order) -> str:
        """Return why an attempt may not run; empty if it may.

        An order of an older node has no name of its job: its work was checked when it was saved.
        """
        namespace = namespace_of(order.job) if order.job else ""
        problem = next(self.policy_of(namespace).problems_of(order.work), None)
        if problem is None:
            return ""
        return f"policy of the namespace {in_quotes(namespace)}: {problem.detail}"

    def _changed(self, key: DocumentKey, document: SharedDocument | None) -> None:
        if key.kind != NAMESPACES:
            return
        definition = document.definition if document else None
        if definition is None:
            self._policies.pop(key.name, None)
            return
        try:
            self._policies[key.name] = policy_in(definition)
        except (*UNDECODABLE, ValueError) as error:
            self._policies[key.name] = NOTHING
            log.error(
                "document of a namespace not understood: no task runs in it",
                extra={"document": key.name, "reason": str(error)},
            )
