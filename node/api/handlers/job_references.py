"""References in the definition of a job: to the jobs that it depends on, and to task types."""

from collections import deque
from collections.abc import Mapping, Sequence

import msgspec

from rota.core.errors import Problem, Refused, invalid, invalid_fields
from rota.core.model.dag import path_of
from rota.core.model.execution import LINKS_MAX
from rota.core.model.flow import RunJob
from rota.core.model.ids import JobId, is_job_id, namespace_of
from rota.core.model.job import JobSpec
from rota.core.model.work_kinds import OWN_FIELDS, kind_of
from rota.core.near_names import did_you_mean
from rota.core.quoting import in_quotes
from rota.node.access.verbs import Verb
from rota.node.api.handlers.lookups import Found, job_by_id, job_by_name
from rota.node.api.kinds.calendars import missing_calendar
from rota.node.api.requests.request_context import RequestContext


async def resolve(request: RequestContext, spec: JobSpec) -> JobSpec:
    """Return *spec* with the full names of its dependencies, which may be given by id.

    Raises:
        Refused: Code ``unknown_dependency``: a job does not exist, or the caller may not run it;
            code ``invalid_job``: the dependencies, or the jobs that tasks run, form a circle;
            code ``forbidden``: the caller may not run the job of a hook, or use secrets; code
            ``unknown_type``: this node cannot run the type of a task; codes ``unknown_secret`` and
            ``unknown_calendar``: a secret or a calendar does not exist; codes ``unknown_namespace``
            and ``policy_violation``: as for `Namespaces.check`; or the primary of a dependency
            cannot be reached.
    """
    request.node.namespaces.check(spec)
    _check_types(request, spec)
    _check_calendars(request, spec)
    await _check_calls(request, spec)
    _check_hooks(request, spec)
    await _check_secrets(request, spec)
    upstreams: list[Found] = []
    problems: list[Problem] = []
    for number, named in enumerate(spec.dependencies):
        namespace, _, name = named.rpartition("/")
        found = await job_by_id(request, JobId(name)) if is_job_id(name) else None
        found = found or await job_by_name(request, namespace, name)
        if found is not None and _may_run(request, spec, found.full_name):
            upstreams.append(found)
        else:
            detail = f"the job {in_quotes(named)} does not exist; create it first"
            problems.append(Problem(f"/dependencies/{number}", detail))
    if problems:
        raise invalid_fields("unknown_dependency", problems)
    spec = msgspec.structs.replace(spec, dependencies=tuple(each.full_name for each in upstreams))
    await _check_circle(request, spec, upstreams)
    return spec


async def _check_circle(request: RequestContext, spec: JobSpec, upstreams: list[Found]) -> None:
    """Check that the job *spec* does not depend on itself by other jobs.

    At most `LINKS_MAX` jobs are looked up. A circle of more jobs, of jobs that the caller may not
    read, or of jobs that are saved at the same time, ends when it runs
    (`rota.core.decide.dependencies`).
    """
    if not _has_new_dependency(request, spec):
        return
    dependents = {each.full_name: spec.full_name for each in upstreams}
    waiting = deque(upstreams)
    while waiting:
        job = waiting.popleft()
        for name in job.dependencies:
            if name == spec.full_name:
                raise _circle(request, spec, job.full_name, dependents)
            if name not in dependents and len(dependents) < LINKS_MAX:
                dependents[name] = job.full_name
                found = await job_by_name(request, namespace_of(name), name.rpartition("/")[2])
                if found is not None:
                    waiting.append(found)


def _has_new_dependency(request: RequestContext, spec: JobSpec) -> bool:
    """Return True if *spec* has a dependency that the stored job of its name lacks.

    The others were checked when they were saved.
    """
    state = request.state(request.node.shards.of_name(spec.namespace, spec.name))
    job_id = state.names.get(spec.full_name)
    known = state.jobs[job_id].spec.dependencies if job_id else ()
    return not set(spec.dependencies) <= set(known)


def _circle(
    request: RequestContext, spec: JobSpec, last: str, dependents: Mapping[str, str]
) -> Refused:
    """Return the refusal of a job on which its dependency *last* depends, with their path."""
    path = [spec.full_name, last]
    while path[-1] != spec.full_name:
        path.append(dependents[path[-1]])
    path.reverse()
    names = [
        each if request.may(Verb.READ, namespace_of(each)) else "(another job)" for each in path
    ]
    shown = path_of(tuple(names))
    detail = f"the dependencies of the jobs form a circle: {shown}; remove one of them"
    pointer = f"/dependencies/{spec.dependencies.index(path[1])}"
    return invalid("invalid_job", f"{pointer}: {detail}", Problem(pointer, detail))


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


async def _check_calls(request: RequestContext, spec: JobSpec) -> None:
    """Check that no task runs a job that runs *spec*, itself or through others.

    Such a circle would begin executions without end. At most `LINKS_MAX` jobs are looked up; a
    circle of jobs that are saved at the same time ends by the limits of executions and links.
    """
    callers = dict.fromkeys(spec.called_jobs, spec.full_name)
    waiting = deque(callers)
    while waiting:
        name = waiting.popleft()
        found = await job_by_name(request, namespace_of(name), name.rpartition("/")[2])
        for each in found.called_jobs if found else ():
            if each == spec.full_name:
                raise _circle_of_calls(spec, name, callers)
            if each not in callers and len(callers) < LINKS_MAX:
                callers[each] = name
                waiting.append(each)


def _circle_of_calls(spec: JobSpec, last: str, callers: Mapping[str, str]) -> Refused:
    """Return the refusal of a job that *last*, which it runs, would run again."""
    path = [spec.full_name, last]
    while path[-1] != spec.full_name:
        path.append(callers[path[-1]])
    path.reverse()
    waits = [task.wait for task in spec.tasks]
    number = next(n for n, it in enumerate(waits) if isinstance(it, RunJob) and it.job == path[1])
    detail = f"the jobs run each other in a circle: {path_of(tuple(path))}; remove one of the tasks"
    pointer = f"/tasks/{number}/runJob"
    return invalid("invalid_job", f"{pointer}: {detail}", Problem(pointer, detail))


def _check_calendars(request: RequestContext, spec: JobSpec) -> None:
    """Check that the calendars exist."""
    known = request.node.facts.present().calendars
    fields = {"onlyCalendars": spec.only_calendars, "exceptCalendars": spec.except_calendars}
    problems = [
        Problem(f"/{field}/{number}", missing_calendar(known, name))
        for field, names in fields.items()
        for number, name in enumerate(names)
        if name not in known
    ]
    if problems:
        raise invalid_fields("unknown_calendar", problems)


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
    missing = f"there is no secret {in_quotes(name)} in {in_quotes(namespace)}"
    return f"{missing}; set it with `rota secret set`"


def _check_types(request: RequestContext, spec: JobSpec) -> None:
    known = sorted(request.node.attempts.types)
    problems = [
        Problem(
            f"{f'/tasks/{number}' if len(spec.tasks) > 1 else ''}/{kind_of(executor).field}",
            _unknown(request, executor, known),
        )
        for number, executor in enumerate(task.work.executor for task in spec.tasks)
        if executor not in known
    ]
    if problems:
        raise invalid_fields("unknown_type", problems)


def _unknown(request: RequestContext, executor: str, known: Sequence[str]) -> str:
    listed = ", ".join(known)
    if executor in OWN_FIELDS:
        return f"this node cannot run the task type {executor}; its task types are {listed}"
    hint = did_you_mean(executor, known)
    return f"there is no task type or job type {in_quotes(executor)}; " + (
        hint or f"this node has the task types {listed}; `rota get types` lists the job types"
    )
