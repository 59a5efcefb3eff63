"""Job types: templates of jobs, with a JSON Schema of their parameters."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

import msgspec

from rota.core.errors import Problem, Refused, invalid_fields
from rota.core.quoting import in_quotes
from rota.executor.testing.scripted_executor import SCRIPTED
from rota.executor.warden.hosted_executors import EXECUTORS
from rota.node.access.verbs import Verb
from rota.node.api.documents.job_bodies import job_spec
from rota.node.api.kinds.document_kind import DocumentKind
from rota.node.api.kinds.parameter_schema import (
    problems_of_schema,
    problems_of_value,
    with_defaults,
)
from rota.node.api.requests.json_decoding import decode
from rota.node.api.requests.permissions import ANYONE, in_cluster
from rota.node.cluster.shared_documents import SharedDocuments
from rota.wire.documents import JobBody, JobTypeBody, Json

Fields = Mapping[str, Json]

OF_THE_JOB = (
    "name", "namespace", "schedule", "schedules", "timezone", "dependencies", "parameters",
)  # fmt: skip
"""Fields of a job that the template of a job type cannot have."""
WORK = frozenset({"command", "python", "container", "tasks", "type"})
"""Fields of a job that define its work."""
BUILT_IN = frozenset({*EXECUTORS, SCRIPTED})
"""Built-in task types; no job type can have one of these names."""
_PLACEHOLDER = "name"
"""The name of the job with which a template is checked."""


def problems_of(name: str, body: JobTypeBody) -> list[Problem]:
    """Return the errors of a job type."""
    problems: list[Problem] = []
    if name in BUILT_IN:
        detail = f"{in_quotes(name)} is a built-in task type; choose another name"
        problems.append(Problem("/name", detail))
    problems += problems_of_schema(body.parameters, "/parameters")
    problems += _problems_of_template(body.template)
    return problems


def _problems_of_template(template: Fields) -> Sequence[Problem]:
    unfit = [
        Problem(f"/template/{field}", "belongs to the job, not to its type; remove it here")
        for field in OF_THE_JOB
        if field in template
    ]
    if unfit:
        return unfit
    try:
        job_spec(body_of(template, {"name": _PLACEHOLDER}))
    except Refused as refusal:
        return [Problem(f"/template{each.pointer}", each.detail) for each in refusal.problems]
    return []


def body_of(template: Fields, own: Fields) -> JobBody:
    """Return the job with the fields *own*; fields that it lacks are those of *template*.

    Environment variables, labels and secrets of both are merged; those of the job take precedence.
    A job with its own work uses no `WORK` field of the template.

    Raises:
        Refused: Code ``invalid_body``: a field is unknown or has the wrong type.
    """
    has_own_work = not WORK.isdisjoint(own)
    inherited = {
        name: each for name, each in template.items() if not (has_own_work and name in WORK)
    }
    merged = {name: _merged(inherited, own, name) for name in ("env", "labels")}
    secrets = _merged_secrets(inherited.get("secrets"), own.get("secrets"))
    return decode(msgspec.json.encode({**inherited, **own, **merged, "secrets": secrets}), JobBody)


def _merged_secrets(theirs: Json, ours: Json) -> Json:
    """Return secrets of both; those of the job take precedence for each variable and file."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        inherited, own = cast("Fields", theirs), cast("Fields", ours)
        return {name: _merged(inherited, own, name) for name in {*inherited, *own}}
    # Whatever has another form is refused when the job is read.
    return cast("Json", theirs if ours is None else ours)


def _merged(inherited: Fields, own: Fields, name: str) -> Json:
    """Return the objects that *inherited* and *own* have under *name*, merged."""
    theirs, ours = inherited.get(name, {}), own.get(name, {})
    if not isinstance(theirs, dict) or not isinstance(ours, dict):
        return ours
    return {**cast("Fields", theirs), **cast("Fields", ours)}


JOB_TYPES = DocumentKind(
    plural="types",
    singular="type",
    title="Job types",
    about="job type",
    not_found_code="type_not_found",
    invalid_code="invalid_type",
    body=JobTypeBody,
    reading=ANYONE,
    writing=in_cluster(Verb.ADMIN),
    problems_of=problems_of,
)


class TypedJob(NamedTuple):
    """A job with the template of its job type.

    Attributes:
        body: The whole job.
        job_type: The job type; empty for none.
    """

    body: JobBody
    job_type: str


def with_template(documents: SharedDocuments, body: JobBody) -> TypedJob:
    """Return the job *body* with the template of its job type, if it has a job type.

    A field that has its default value in *body* gets the value of the template.

    Raises:
        Refused: Code ``invalid_job``: the parameters do not match the schema; or as for `body_of`.
    """
    found = _job_type(documents, body.type or "")
    if body.type is None or found is None:
        return TypedJob(body, "")
    own = {name: each for name, each in msgspec.to_builtins(body).items() if name != "type"}
    parameters = with_defaults(found.parameters, body.parameters)
    problems = problems_of_value(found.parameters, parameters, "/parameters")
    if problems:
        raise invalid_fields("invalid_job", problems)
    if parameters is not None:
        own["parameters"] = parameters
    return TypedJob(body_of(found.template, own), body.type)


def checked_parameters(documents: SharedDocuments, job_type: str, parameters: Json) -> Json:
    """Return the parameters of a trigger, with the defaults of the job's type; None for none.

    Raises:
        Refused: Code ``invalid_parameters``: the parameters do not match the schema.
    """
    found = _job_type(documents, job_type)
    if found is None or parameters is None:
        return parameters
    given = with_defaults(found.parameters, parameters)
    problems = problems_of_value(found.parameters, given, "/parameters")
    if problems:
        raise invalid_fields("invalid_parameters", problems)
    return given


def _job_type(documents: SharedDocuments, name: str) -> JobTypeBody | None:
    found = documents.get(JOB_TYPES.key(name)) if name and name not in BUILT_IN else None
    return None if found is None else msgspec.convert(found.definition, JobTypeBody)
