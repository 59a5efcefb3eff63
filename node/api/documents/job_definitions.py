"""Definitions of stored jobs: bodies that clients can edit and send.

`rota.wire.bodies.job_bodies.job_spec` converts the definition back to the same job.
"""

from itertools import repeat
from typing import Any, TypeVar

import msgspec

from rota.core.model.hook import HookEvent
from rota.core.model.job import JobSpec, SchedulePolicy, TaskSpec
from rota.core.model.retry import Explicit, Exponential, Fixed, Linear, RetryPolicy
from rota.core.model.work import Sandbox, Work
from rota.core.model.work_kinds import KINDS
from rota.core.timing.instants import Duration, format_duration
from rota.core.timing.schedule import Schedule
from rota.wire.bodies.flow_bodies import flow_fields
from rota.wire.bodies.job_bodies import MAIN_TASK
from rota.wire.bodies.schedule_bodies import shown_policy, shown_rule
from rota.wire.bodies.task_bodies import (
    container_body,
    limits_body,
    python_body,
    sandbox_body,
    secrets_body,
)
from rota.wire.documents import (
    HookBody,
    JobBody,
    Json,
    RetryBody,
    ScheduleBody,
    TaskBody,
    Timespan,
    TriggerOnBody,
)
from rota.wire.job_fields import STORED, Form, JobField

V = TypeVar("V")
_PLAIN = JobBody(name="plain")
"""A body with the default of every field."""
_RETRIES = RetryBody(limit=0)


def definition_of(spec: JobSpec) -> JobBody:
    """Return the body that defines *spec*, in its shortest form; without ``tasks`` if possible."""
    single, several = _schedules(spec)
    shared = JobBody(
        name=spec.name,
        namespace=_unless_same(_PLAIN.namespace, spec.namespace),
        schedule=single.text if single else None,
        timezone=_unless_same(_PLAIN.timezone, single.timezone) if single else _PLAIN.timezone,
        schedules=several,
        dependencies=list(spec.dependencies),
        on_failure=_hooks(spec, HookEvent.FAILURE),
        on_success=_hooks(spec, HookEvent.SUCCESS),
        on_recovery=_hooks(spec, HookEvent.RECOVERY),
        on_late=_hooks(spec, HookEvent.LATE),
        triggers=[TriggerOnBody(event=each.event, when=each.when) for each in spec.triggers],
        parameters=_json(spec.parameters),
        type=spec.job_type or None,
        **{field.name: _given(field, getattr(spec, field.name)) for field in STORED},
    )
    if _is_plain(spec):
        return _with_command(shared, spec.tasks[0])
    return msgspec.structs.replace(shared, tasks=[_task(task) for task in spec.tasks])


def _given(field: JobField, value: Any) -> Any:
    """Return the value of a field of a body; Any: its type is that of the field."""
    match field.form:
        case Form.CHOICE:
            return None if field.default is None and value is field.stored_default else value.value
        case Form.DURATION:
            return _unless(field.default, value)
        case Form.JSON:
            return _json(value)
        case Form.NAMES:
            return list(value)
        case Form.PAIRS:
            return dict(value)
        case _:
            return value


def _hooks(spec: JobSpec, event: HookEvent) -> list[HookBody]:
    """Return the hooks of *event*; a job of the same namespace is named without it."""
    return [
        HookBody(
            webhook=hook.webhook or None,
            job=hook.job.partition("/")[2] or None,
            format=hook.format.value,
        )
        for hook in spec.hooks
        if hook.event is event
    ]


def _is_plain(spec: JobSpec) -> bool:
    """Return True if a body without ``tasks`` can define the job."""
    if len(spec.tasks) != 1 or spec.tasks[0].name != MAIN_TASK:
        return False
    if flow_fields(spec.tasks[0]) != flow_fields(TaskSpec(name=MAIN_TASK, work=Work())):
        return False
    # Parameters of a command belong to the job, those of a type to its task.
    work = spec.tasks[0].work
    if spec.job_type and _type(spec.tasks[0]):
        return False
    return not (spec.parameters if _type(spec.tasks[0]) else work.parameters)


def _with_command(body: JobBody, task: TaskSpec) -> JobBody:
    work = task.work
    return msgspec.structs.replace(
        body,
        command=_command(task),
        type=_type(task) or body.type,
        parameters=_json(work.parameters) if _type(task) else body.parameters,
        retries=_retries(task.retry),
        timeout=_unless(_PLAIN.timeout, work.timeout),
        stop_grace=_unless(_PLAIN.stop_grace, work.stop_grace),
        env=dict(work.env),
        secrets=secrets_body(work),
        user=work.user,
        identity=work.has_identity,
        cwd=work.cwd,
        stdin=work.stdin,
        python=python_body(work),
        container=container_body(work),
        sandbox=_PLAIN.sandbox if work.sandbox == Sandbox() else sandbox_body(work),
        limits=limits_body(work),
        node_selector=dict(task.selector),
    )


def _task(task: TaskSpec) -> TaskBody:
    work = task.work
    return TaskBody(
        name=task.name,
        command=_command(task),
        type=_type(task),
        parameters=_json(work.parameters),
        needs=list(task.needs),
        trigger_rule=task.rule.value,
        env=dict(work.env),
        secrets=secrets_body(work),
        user=work.user or None,
        identity=work.has_identity or None,
        cwd=work.cwd or None,
        stdin=work.stdin or None,
        retries=_retries(task.retry) or None,
        timeout=_own(_PLAIN.timeout, work.timeout),
        stop_grace=_own(_PLAIN.stop_grace, work.stop_grace),
        python=python_body(work),
        container=container_body(work),
        sandbox=None if work.sandbox == Sandbox() else sandbox_body(work),
        limits=limits_body(work),
        node_selector=dict(task.selector) or None,
        **flow_fields(task),
    )


def _schedules(spec: JobSpec) -> tuple[Schedule | None, list[str | ScheduleBody]]:
    """Return the only schedule, if text and time zone define it, or else all schedules."""
    schedules = spec.schedules
    if len(schedules) == 1 and not spec.policies:
        only = schedules[0]
        if only == Schedule(text=only.text, timezone=only.timezone, seed=only.seed):
            return only, []
    return None, [
        ScheduleBody(**shown_rule(each), **shown_policy(policy, _json(policy.parameters)))
        for each, policy in zip(schedules, spec.policies or repeat(SchedulePolicy()), strict=False)
    ]


def _command(task: TaskSpec) -> str | list[str] | None:
    return task.work.shell or list(task.work.argv) or None


def _type(task: TaskSpec) -> str | None:
    return None if task.work.executor in KINDS else task.work.executor


def _retries(policy: RetryPolicy) -> int | RetryBody:
    if policy == RetryPolicy(limit=policy.limit):
        return policy.limit
    body = RetryBody(
        limit=policy.limit,
        jitter=_unless_same(_RETRIES.jitter, policy.jitter),
        on_exit_codes=list(policy.on_exit_codes),
        never_on_exit_codes=list(policy.never_on_exit_codes),
        on_exceptions=list(policy.on_exceptions),
        never_on_exceptions=list(policy.never_on_exceptions),
        on_causes=list(policy.on_causes),
        never_on_causes=list(policy.never_on_causes),
        max_elapsed=_unless(0, policy.elapsed_max),
    )
    match policy.backoff:
        case Fixed(delay=delay):
            return msgspec.structs.replace(body, backoff="fixed", delay=_text(delay))
        case Explicit(delays=delays):
            texts: list[Timespan] = [_text(delay) for delay in delays]
            return msgspec.structs.replace(body, backoff="explicit", delays=texts)
        case Linear(step=step, delay_max=delay_max):
            return msgspec.structs.replace(
                body, backoff="linear", delay=_text(step), max_delay=_text(delay_max)
            )
        case Exponential(first=first, factor=factor, delay_max=delay_max):
            return msgspec.structs.replace(
                body,
                delay=_text(first),
                factor=_unless_same(_RETRIES.factor, factor),
                max_delay=_text(delay_max),
            )


def _unless_same(default: V, value: V) -> V:
    """Return *default* itself if *value* equals it: msgspec omits only the identical object."""
    return default if value == default else value


def _unless(default: Timespan, duration: Duration) -> Timespan:
    """Return *default* itself if *duration* equals it, so that the document omits the field."""
    text = _text(duration)
    return default if text in (default, f"{default}s") else text


def _own(of_job: Timespan, duration: Duration) -> Timespan | None:
    """Return the duration of a task; None for *of_job*, which it has without its own."""
    own = _unless(of_job, duration)
    return None if own is of_job else own


def _text(duration: Duration) -> str:
    return format_duration(duration)


def _json(text: str) -> Json:
    return msgspec.json.decode(text) if text else None
