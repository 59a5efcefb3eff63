"""Principals: the callers of requests."""

from dataclasses import dataclass, field
from typing import NamedTuple

from rota.core.errors import Kind, Refused
from rota.core.model.ids import ExecutionId, JobId, job_of
from rota.core.timing.instants import Instant
from rota.node.access.attempt_identity import AttemptIdentity
from rota.node.access.grants import Grant, Grants
from rota.node.access.verbs import EVERY, Verb


class ClientCertificate(NamedTuple):
    """A certificate of a client, which TLS has verified.

    Attributes:
        common_name: The common name of its subject.
        ends_at: When the certificate ends.
    """

    common_name: str
    ends_at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """The caller of a request.

    Attributes:
        name: The name of the caller, as in logs and records.
        grants: The verbs of the caller.
        key_id: The id of the token with which the caller proved its name; empty for none.
        subjects: The subjects of bindings that mean this caller, such as ``principal:ci``.
        issuer: The issuer of the token, if it is none of rota; empty otherwise.
        expires_at: When such a token, or the client's certificate, ends; None if the caller has
            neither. A token of rota has its end in its key.
        attempt: The attempt that is the caller; None for a caller that is no task.
    """

    name: str
    grants: Grants
    key_id: str = ""
    subjects: tuple[str, ...] = field(default=())
    issuer: str = ""
    expires_at: Instant | None = None
    attempt: AttemptIdentity | None = None

    @property
    def identity(self) -> str:
        """The text that only this caller has; several callers of one issuer may have one name."""
        return self.subjects[0] if self.issuer else self.name

    def may(self, verb: Verb, namespace: str) -> bool:
        """Return True if the caller has *verb* in *namespace*; `EVERY` is the whole cluster."""
        return self.grants.may(verb, namespace)

    def is_task_of(self, job_id: JobId) -> bool:
        """Return True if the caller is a task of this job, whose state it may use in any case."""
        return self.attempt is not None and job_of(self.attempt.execution_id) == job_id

    def is_part_of(self, execution_id: ExecutionId) -> bool:
        """Return True if the caller is a task of this execution, which it may read in any case."""
        return self.attempt is not None and self.attempt.execution_id == execution_id


def forbidden(name: str, verb: Verb, namespace: str) -> Refused:
    """Return the refusal of a request whose caller *name* lacks *verb* in *namespace*."""
    where = "the whole cluster" if namespace == EVERY else f"the namespace {namespace!r}"
    return Refused(
        Kind.FORBIDDEN,
        "forbidden",
        f"{repr(name) if name else 'a request without a token'} lacks the verb {verb.value!r} in "
        f"{where}; an administrator can grant a role that has it: `rota grant`",
    )


ANONYMOUS = Principal(name="", grants=Grants(()))
"""The caller of a request that is not authenticated."""
OPERATOR = Principal(name="operator", grants=Grants([Grant(frozenset(Verb), (EVERY,))]))
"""The caller of every request to a node without authentication."""
