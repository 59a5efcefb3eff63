"""What a job names has to exist: the jobs that it depends on, the types of its tasks."""

import msgspec

from rota.core.errors import Problem, invalid
from rota.core.ids import JobId, is_job_id
from rota.core.job import Job, JobSpec
from rota.node.api.works import OWN_FIELDS
from rota.node.parts import Parts
from rota.node.shards import Shards


def resolve(parts: Parts, spec: JobSpec) -> JobSpec:
    """Return *spec* with each dependency, a name or an id, as a full name.

    Raises:
        Refused: Code ``unknown_dependency``: there is no such job; code ``unknown_type``: this
            node cannot run a task's type.
    """
    _check_types(parts, spec)
    full_names: list[str] = []
    problems: list[Problem] = []
    for number, named in enumerate(spec.dependencies):
        namespace, _, name = named.rpartition("/")
        by_id = _job_by_id(name, parts.shards)
        if by_id is not None:
            full_names.append(by_id.spec.full_name)
        elif named in parts.shards.of_name(namespace, name).state.names:
            full_names.append(named)
        else:
            problems.append(
                Problem(f"/dependencies/{number}", f"there is no job {named!r}; create it first")
            )
    if problems:
        raise invalid("unknown_dependency", "; ".join(map(str, problems)), *problems)
    return msgspec.structs.replace(spec, dependencies=tuple(full_names))


def _check_types(parts: Parts, spec: JobSpec) -> None:
    known = sorted(parts.attempts.types)
    problems = [
        Problem(
            f"{f'/tasks/{number}' if len(spec.tasks) > 1 else ''}/{_field(task.work.executor)}",
            f"there is no type {task.work.executor!r} here; there are {', '.join(known)}",
        )
        for number, task in enumerate(spec.tasks)
        if task.work.executor not in known
    ]
    if problems:
        raise invalid("unknown_type", "; ".join(map(str, problems)), *problems)


def _field(executor: str) -> str:
    return executor if executor in OWN_FIELDS else "type"


def _job_by_id(named: str, shards: Shards) -> Job | None:
    if not is_job_id(named):
        return None
    job_id = JobId(named)
    return shards.of_id(job_id).state.jobs.get(job_id)
