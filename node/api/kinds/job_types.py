"""Job types: templates of jobs, with a JSON Schema of their parameters."""

from typing import NamedTuple

import msgspec

from rota.core.errors import Problem
from rota.core.model.job import JobSpec
from rota.core.quoting import in_quotes
from rota.executor.testing.scripted_executor import SCRIPTED
from rota.executor.warden.hosted_executors import known_executors
from rota.node.access.verbs import Verb
from rota.node.api.kinds.document_kind import DocumentKind
from rota.node.api.requests.permissions import ANYONE, in_cluster
from rota.node.cluster.shared_documents import SharedDocuments
from rota.wire.bodies.job_templates import problems_of_type, with_type
from rota.wire.bodies.parameter_schema import checked, own_parameters
from rota.wire.documents import JobBody, JobTypeBody, Json


def problems_of(name: str, body: JobTypeBody) -> list[Problem]:
    """Return the errors of a job type."""
    problems: list[Problem] = []
    if _is_task_type(name):
        detail = f"{in_quotes(name)} is a built-in task type; choose another name"
        problems.append(Problem("/name", detail))
    return [*problems, *problems_of_type(body)]


def _is_task_type(name: str) -> bool:
    """Return True if an executor has this name, so that no job type can have it."""
    return name in known_executors() or name == SCRIPTED


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
    return TypedJob(with_type(body, found), body.type)


def checked_parameters(documents: SharedDocuments, spec: JobSpec, parameters: Json) -> Json:
    """Return the parameters of a trigger of a job, with the defaults of their schema.

    The schema is that of the job's type, or the job's own. None stands for the parameters of the
    job, which were checked with it; with a schema of its own, a job may lack them.

    Raises:
        Refused: Code ``invalid_parameters``: the parameters do not match the schema.
    """
    found = _job_type(documents, spec.job_type)
    if found is None:
        return own_parameters(spec, parameters)
    return None if parameters is None else checked(found.parameters, parameters)


def _job_type(documents: SharedDocuments, name: str) -> JobTypeBody | None:
    found = documents.get(JOB_TYPES.key(name)) if name and not _is_task_type(name) else None
    return None if found is None else msgspec.convert(found.definition, JobTypeBody)
