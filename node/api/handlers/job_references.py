"""References in the definition of a job: to the jobs that it depends on, and to task types."""

from collections.abc import Sequence

import msgspec

from rota.core.errors import Problem, invalid_fields
from rota.core.model.ids import JobId, is_job_id, namespace_of
from rota.core.model.job import JobSpec
from rota.core.near_names import did_you_mean
from rota.core.quoting import in_quotes
from rota.node.access.verbs import Verb
from rota.node.api.documents.task_bodies import OWN_FIELDS
from rota.node.api.handlers.lookups import job_by_id, job_by_name
from rota.node.api.handlers.sealed_text_checks import check_sealed_job
from rota.node.api.kinds.job_types import JOB_TYPES
from rota.node.api.requests.near_jobs import near_jobs
from rota.node.api.requests.request_context import RequestContext


async def resolve(request: RequestContext, spec: JobSpec) -> JobSpec:
    """Return *spec* with the full names of its dependencies, which may be given by id.

    Raises:
        Refused: Code ``unknown_dependency``: a job does not exist, or the caller may not run it;
            code ``forbidden``: the caller may not run the job of a hook, or use secrets; code
            ``unknown_type``: this node cannot run the type of a task; code ``unknown_secret``: a
            secret does not exist; code ``invalid_sealed_text``: as for `check_sealed_job`; codes
            ``unknown_namespace`` and ``policy_violation``: as for `Namespaces.check`; or the
            primary of a dependency cannot be reached.
    """
    request.node.namespaces.check(spec)
    await check_sealed_job(request, spec)
    _check_types(request, spec)
    _check_hooks(request, spec)
    await _check_secrets(request, spec)
    full_names: list[str] = []
    problems: list[Problem] = []
    for number, named in enumerate(spec.dependencies):
        namespace, _, name = named.rpartition("/")
        found = await job_by_id(request, JobId(name)) if is_job_id(name) else None
        found = found or await job_by_name(request, namespace, name)
        if found is not None and _may_run(request, spec, found.full_name):
            full_names.append(found.full_name)
        else:
            hint = "" if is_job_id(name) else near_jobs(request, namespace, name)
            detail = f"the job {in_quotes(named)} does not exist; {hint or 'create it first'}"
            problems.append(Problem(f"/dependencies/{number}", detail))
    if problems:
        raise invalid_fields("unknown_dependency", problems)
    return msgspec.structs.replace(spec, dependencies=tuple(full_names))


def _check_hooks(request: RequestContext, spec: JobSpec) -> None:
    """Check that the caller may run the jobs of other namespaces that the hooks trigger."""
    for hook in spec.hooks:
        if hook.job and namespace_of(hook.job) != spec.namespace:
            request.require(Verb.RUN, namespace_of(hook.job), of=spec.full_name)


def _may_run(request: RequestContext, spec: JobSpec, full_name: str) -> bool:
    """Return True if the caller may connect the job *spec* with the job *full_name*.

    Within a namespace, the permission to write the job is sufficient.
    """
    namespace = namespace_of(full_name)
    return namespace == spec.namespace or request.may(Verb.RUN, namespace)


async def _check_secrets(request: RequestContext, spec: JobSpec) -> None:
    """Check that the secrets exist, and that the caller may use those of the namespace.

    This is checked at every save, also of a job that has the secrets already: a caller that changes
    its command could read them.
    """
    named = [(number, task.work.secrets) for number, task in enumerate(spec.tasks)]
    used = {name for _, secrets in named if secrets for name in secrets.names}
    if not used:
        return
    request.require(Verb.SECRET_USE, spec.namespace, of=spec.full_name)
    unknown = await request.node.secrets.unknown(spec.namespace, used)
    problems = [
        Problem(
            f"{f'/tasks/{number}' if len(spec.tasks) > 1 else ''}/secrets",
            _unknown_secret(request, spec.namespace, name),
        )
        for number, secrets in named
        if secrets
        for name in secrets.names
        if name in unknown
    ]
    if problems:
        raise invalid_fields("unknown_secret", problems)


def _unknown_secret(request: RequestContext, namespace: str, name: str) -> str:
    hint = ""
    if request.take_suggestion():
        hint = did_you_mean(name, request.node.secrets.names_in(namespace))
    missing = f"there is no secret {in_quotes(name)} in {in_quotes(namespace)}"
    return f"{missing}; {hint or 'set it with `rota secret set`'}"


def _check_types(request: RequestContext, spec: JobSpec) -> None:
    known = sorted(request.node.attempts.types)
    problems = [
        Problem(
            f"{f'/tasks/{number}' if len(spec.tasks) > 1 else ''}/{_field(task.work.executor)}",
            _unknown(request, task.work.executor, known),
        )
        for number, task in enumerate(spec.tasks)
        if task.work.executor not in known
    ]
    if problems:
        raise invalid_fields("unknown_type", problems)


def _unknown(request: RequestContext, executor: str, known: Sequence[str]) -> str:
    listed = ", ".join(known)
    if executor in OWN_FIELDS:
        return f"this node cannot run the task type {executor}; its task types are {listed}"
    hint = ""
    if request.take_suggestion():
        types = request.node.documents.of_kind(JOB_TYPES.plural)
        hint = did_you_mean(executor, (*known, *(each.name for each in types)))
    return f"there is no task type or job type {in_quotes(executor)}; " + (
        hint or f"this node has the task types {listed}; `rota get types` lists the job types"
    )


def _field(executor: str) -> str:
    return executor if executor in OWN_FIELDS else "type"
