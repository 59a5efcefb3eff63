"""Namespaces: owners, defaults of jobs, what tasks may do, and the pause."""

from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from rota.core.errors import Problem, Refused
from rota.core.model.ids import is_name
from rota.core.model.permitted_binds import WRITABLE
from rota.core.model.shared_document import NAMESPACES as KIND
from rota.core.model.shared_document import Definition
from rota.core.model.work_checks import PROFILES
from rota.core.quoting import in_quotes
from rota.core.timing.instants import parse_instant
from rota.node.access.verbs import EVERY, Verb
from rota.node.api.kinds.document_kind import DocumentKind, ObjectRules
from rota.node.api.requests.permissions import in_cluster, on_each, on_object
from rota.node.api.requests.request_context import RequestContext
from rota.node.facts.pauses import pause_fields
from rota.node.namespaces.policy import NETWORKS
from rota.wire.bodies.job_bodies import job_spec
from rota.wire.bodies.job_templates import Fields, body_of
from rota.wire.documents import JobBody, NamespaceBody, NamespacePauseBody, PolicyBody
from rota.wire.job_fields import JOB_FIELDS, keys_of

DEFAULTS = keys_of(field for field in JOB_FIELDS if field.has_default)
"""The fields of jobs that may have defaults."""
_PLACEHOLDER: Fields = {"name": "name", "command": "true"}
"""The job with which defaults are checked."""


def problems_of(name: str, body: NamespaceBody) -> list[Problem]:
    """Return the errors of a namespace."""
    return [
        *_problems_of_owners(body.owners),
        *_problems_of_defaults(name, body.defaults),
        *(_problems_of_policy(body.policy) if body.policy else ()),
        *(_problems_of_pause(body.pause) if body.pause else ()),
    ]


def _problems_of_owners(owners: Sequence[str]) -> Iterator[Problem]:
    for number, owner in enumerate(owners):
        if not owner.strip() or not owner.isprintable():
            detail = f"{in_quotes(owner)} is empty or not printable; name a person or a team"
            yield Problem(f"/owners/{number}", detail)


def _problems_of_defaults(name: str, defaults: Fields) -> Sequence[Problem]:
    unfit = [
        Problem(
            f"/defaults/{field}",
            f"{in_quotes(field)} cannot have a default; the fields are: {', '.join(DEFAULTS)}",
        )
        for field in defaults
        if field not in DEFAULTS
    ]
    if unfit:
        return unfit
    where = {"namespace": name} if is_name(name) else {}
    found = _problems_of_job(body_of(defaults, {**_PLACEHOLDER, **where}))
    return [Problem(f"/defaults{each.pointer}", each.detail) for each in found]


def _problems_of_job(body: JobBody) -> Sequence[Problem]:
    try:
        job_spec(body)
    except Refused as refusal:
        return refusal.problems
    return ()


def _problems_of_pause(pause: NamespacePauseBody) -> Iterator[Problem]:
    """Yield the errors of the pause of a new namespace, such as one from a file."""
    try:
        parse_instant(pause.at)
    except ValueError as error:
        yield Problem("/pause/at", f"{error}; omit the pause, and pause the namespace afterwards")
    for field, text in (("by", pause.by), ("reason", pause.reason)):
        if text and not text.isprintable():
            yield Problem(f"/pause/{field}", f"{in_quotes(text)} is not printable")


def _problems_of_policy(policy: PolicyBody) -> Sequence[Problem]:
    problems: list[Problem] = []
    for field, value, known in (
        ("sandbox", policy.sandbox, PROFILES),
        ("network", policy.network, NETWORKS),
    ):
        if value not in known:
            detail = f"{in_quotes(value)} is not one of {', '.join(known)}"
            problems.append(Problem(f"/policy/{field}", detail))
    for number, folder in enumerate(policy.binds or ()):
        root = folder.removesuffix(WRITABLE)
        if not root.startswith("/") or ".." in root.split("/"):
            detail = (
                f"{in_quotes(folder)} is not an absolute path of a folder; {WRITABLE} after it "
                "allows writing"
            )
            problems.append(Problem(f"/policy/binds/{number}", detail))
    # Limits and labels have the form that they have in a job.
    job = JobBody(name="name", command="true", limits=policy.limits, node_selector=policy.nodes)
    for each in _problems_of_job(job):
        pointer = each.pointer.replace("/nodeSelector", "/nodes", 1)
        problems.append(Problem(f"/policy{pointer}", each.detail))
    return problems


def completed(body: NamespaceBody, before: Definition) -> NamespaceBody:
    """Return *body* with the pause that the namespace has."""
    fields = pause_fields(before)
    return replace(
        body, pause=None if fields is None else msgspec.convert(fields, NamespacePauseBody)
    )


class NamespaceRules(ObjectRules[NamespaceBody]):
    """The rules of access to single namespaces: readers of a namespace may read its document."""

    def authorize_read(
        self, request: RequestContext, name: str, definition: Definition | None, missing: Refused
    ) -> None:
        """Check that the caller may read the namespace."""
        del definition
        request.authorize_unless(None if _may_read(request, name) else missing)

    def may_see(self, request: RequestContext, name: str, definition: Definition) -> bool:
        """Return True if a list for the caller has the namespace."""
        del definition
        return request.may_see_if(_may_read(request, name))

    def authorize_change(
        self,
        request: RequestContext,
        before: Definition | None,
        after: NamespaceBody | None,
        missing: Refused,
    ) -> None:
        """Count the request as authorized: its permission concerns the whole cluster."""
        del before, after, missing
        request.note_authorized()


def _may_read(request: RequestContext, name: str) -> bool:
    principal = request.principal
    return principal.may(Verb.READ, name) or principal.may(Verb.AUDIT, EVERY)


RULES = NamespaceRules()
NAMESPACES = DocumentKind(
    plural=KIND,
    singular="namespace",
    title="Namespaces",
    about="namespace",
    not_found_code="namespace_not_found",
    invalid_code="invalid_namespace",
    body=NamespaceBody,
    listing=on_each(Verb.READ),
    reading=on_object(Verb.READ),
    writing=in_cluster(Verb.ADMIN),
    problems_of=problems_of,
    rules=RULES,
    completed=completed,
)
