"""Templates of job types: their check, and the jobs that they make."""

from collections.abc import Mapping, Sequence
from typing import cast

import msgspec

from rota.core.errors import Problem, Refused, invalid_fields
from rota.wire.bodies.job_bodies import job_spec
from rota.wire.bodies.json_decoding import decode
from rota.wire.bodies.parameter_schema import completed, problems_of_schema
from rota.wire.documents import JobBody, JobTypeBody, Json

Fields = Mapping[str, Json]

OF_THE_JOB = (
    "name", "namespace", "schedule", "schedules", "timezone", "dependencies", "parameters",
)  # fmt: skip
"""Fields of a job that the template of a job type cannot have."""
WORK = frozenset({"command", "python", "container", "tasks", "type"})
"""Fields of a job that define its work."""
_PLACEHOLDER = "name"
"""The name of the job with which a template is checked."""


def problems_of_type(body: JobTypeBody) -> list[Problem]:
    """Return the errors of a job type, except those of its name."""
    problems = problems_of_schema(body.parameters, "/parameters")
    return [*problems, *_problems_of_template(body.template)]


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


def with_type(body: JobBody, job_type: JobTypeBody) -> JobBody:
    """Return the job *body* with the template of its job type.

    A field that has its default value in *body* gets the value of the template.

    Raises:
        Refused: Code ``invalid_job``: the parameters do not match the schema; or as for `body_of`.
    """
    own = {name: each for name, each in msgspec.to_builtins(body).items() if name != "type"}
    parameters, problems = completed(job_type.parameters, body.parameters)
    if problems:
        raise invalid_fields("invalid_job", problems)
    if parameters is not None:
        own["parameters"] = parameters
    return body_of(job_type.template, own)


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
