"""Workflows of GitHub Actions: each is a job, and its jobs are tasks."""

from collections.abc import Mapping
from pathlib import PurePath
from typing import cast

from rota.client.definitions import Definition
from rota.client.imports.drafts import Findings, Source
from rota.client.imports.github_steps import Context, Script, environment, script_of, text_of
from rota.client.imports.located import Located, documents_in

TIMEOUT_MINUTES = 360
"""The time limit of a job that names none."""

_OF_WORKFLOW = frozenset({"name", "run-name", "on", "env", "defaults", "jobs", "concurrency"})
_OF_JOB = frozenset(
    {"name", "needs", "runs-on", "env", "defaults", "steps", "timeout-minutes", "strategy"}
    | {"if", "container", "uses"}
)
_WITHOUT_NOTE = frozenset({"schedule", "workflow_dispatch"})
_CONDITIONS = {"success()": "", "always()": "all_done", "!cancelled()": "all_done"} | {
    "failure()": "one_failed"
}
_TOKEN = "a task with identity: true has a token for rota; others are secrets"
_REMEDIES = {
    "permissions": _TOKEN,
    "services": "start them in the command, or run them beside the nodes",
    "outputs": "write the result to the file $ROTA_RESULT; tasks that need this one get it",
    "continue-on-error": "a task that needs it, with handlesFailure: true, handles its failure",
    "environment": "approval waits for a person; secrets have their own namespace",
    "secrets": "secrets of the task name the secrets that it gets",
    "with": "parameters are those of a trigger",
}


def read_workflows(sources: list[Source]) -> list[Findings]:
    """Return the jobs in workflows.

    Raises:
        InvalidFile: A workflow is not valid.
    """
    return [_read(source) for source in sources]


def _read(source: Source) -> Findings:
    findings = Findings(source.name)
    for workflow in documents_in(source, findings):
        jobs = workflow.within("jobs")
        if not jobs.fields:
            raise findings.invalid(workflow.line(), "the workflow has no jobs")
        workflow.lose_others(_OF_WORKFLOW, _REMEDIES)
        timing = _timing(workflow)
        context = Context(env={}, has_parameters=bool(timing.get("parameters")))
        env, secrets = environment(workflow, context)
        context = Context(env, has_parameters=context.has_parameters)
        definition: Definition = {
            **timing,
            "overlap": _overlap(workflow),
            "env": env,
            "tasks": [_task(jobs.within(name), workflow, context, secrets) for name in jobs.fields],
        }
        name = workflow.text("name") or PurePath(source.name).stem
        findings.add(workflow.line(), name, definition, has_templates=True)
    return findings


def _timing(workflow: Located) -> Definition:
    """Return the schedules and the parameters; other events are lost."""
    value = workflow.fields.get("on")
    if isinstance(value, str | list):
        events = [value] if isinstance(value, str) else cast("list[object]", value)
        on = Located(workflow.findings, {}, ("on",), workflow.lines)
        names = [str(each) for each in events]
    else:
        on = workflow.within("on")
        names = [*on.fields]
    for name in names:
        if name not in _WITHOUT_NOTE:
            workflow.findings.lose(
                on.line(name), f"on: {name}", "a program can start the job by the API (trigger)"
            )
    found = [_schedule(each) for each in on.objects("schedule")]
    inputs = on.within("workflow_dispatch").within("inputs")
    defaults = {name: inputs.within(name).fields.get("default", "") for name in inputs.fields}
    return {"schedules": found, "parameters": defaults}


def _schedule(entry: Located) -> object:
    schedule, timezone = entry.text("cron"), entry.text("timezone")
    if not schedule:
        raise entry.findings.invalid(entry.line(), "the schedule has no cron")
    if len(schedule.split()) != 5:
        raise entry.invalid("cron", "five fields: minute hour day month weekday")
    entry.findings.check_schedule(entry.line("cron"), schedule, timezone or "UTC")
    return {"schedule": schedule, "timezone": timezone} if timezone else schedule


def _overlap(workflow: Located) -> str:
    if not workflow.fields.get("concurrency"):
        return ""
    workflow.findings.change(
        workflow.line("concurrency"),
        "concurrency: a run waits for, or cancels, the one of its group",
        "executions of this job do; other jobs of the group do not count",
    )
    is_cancelling = workflow.within("concurrency").fields.get("cancel-in-progress") is True
    return "cancel_running" if is_cancelling else "queue_latest"


def _task(
    job: Located, workflow: Located, above: Context, secrets: Mapping[str, str]
) -> Definition:
    """Return the task of a job of the workflow, whose variables and secrets it has, too."""
    job.lose_others(_OF_JOB, _REMEDIES)
    loop, is_known = _loop(job)
    variables = [*job.within("strategy").within("matrix").fields] if loop else []
    env, own = environment(job, Context(above.env, above.has_parameters, variables))
    context = Context({**above.env, **env}, above.has_parameters, variables)
    script = _script(job, workflow, context)
    rule, is_kept = _condition(job)
    definition: Definition = {
        "name": job.path[-1],
        "needs": _needs(job),
        "triggerRule": rule,
        "when": "" if is_known and is_kept else "false",
        "foreach": loop,
        "container": _container(job),
        "env": {**env, **script.env},
        "secrets": _secrets(job, {**secrets, **own, **script.secrets}),
        "timeout": f"{job.number('timeout-minutes') or TIMEOUT_MINUTES}m",
        "command": ["bash", "-e", "-c", "\n".join(script.lines)],
    }
    return {key: value for key, value in definition.items() if value}


def _secrets(job: Located, secrets: dict[str, str]) -> Definition | None:
    if not secrets or not job.fields.get("container"):
        return {"env": secrets} if secrets else None
    job.findings.lose(
        job.line("container"),
        f"secrets in variables of a container: {', '.join(secrets)}",
        "secrets has files, which are in the folder of the variable ROTA_SECRETS",
    )
    return None


def _script(job: Located, workflow: Located, context: Context) -> Script:
    findings = job.findings
    if job.fields.get("uses"):
        findings.lose(
            job.line("uses"),
            f"uses: {job.text('uses')}, a workflow of another file; the command fails until then",
            "import its file, and start its job with dependencies or onSuccess",
        )
        return Script(["echo 'the workflow that this job uses is not imported' >&2", "exit 1"])
    if not job.fields.get("runs-on"):
        raise findings.invalid(job.line(), "the job has neither runs-on nor uses")
    findings.change(
        job.line("runs-on"),
        f"runs-on: {job.fields['runs-on']}: a machine with the tools of GitHub, for this job alone",
        "the task runs on any node; add a container, or select nodes with nodeSelector",
    )
    return script_of(job, workflow, context)


def _needs(job: Located) -> list[str]:
    value = job.fields.get("needs")
    return [value] if isinstance(value, str) else job.texts("needs")


def _condition(job: Located) -> tuple[str, bool]:
    """Return the trigger rule of a condition, and whether the condition is carried over."""
    text = text_of(job, "if").removeprefix("${{").removesuffix("}}").strip() or "success()"
    if text in _CONDITIONS:
        return _CONDITIONS[text], True
    job.findings.lose(
        job.line("if"),
        f"if: {text}",
        "write the condition in when; until then it is false, and the task is skipped",
    )
    return "", False


def _container(job: Located) -> str:
    value = job.fields.get("container")
    if value is None or isinstance(value, str):
        return value or ""
    container = job.within("container")
    container.lose_others({"image"}, _REMEDIES)
    return container.text("image")


def _loop(job: Located) -> tuple[Definition | None, bool]:
    """Return the loop over a matrix of lists of values, and whether the matrix is carried over."""
    strategy = job.within("strategy")
    value = strategy.fields.get("matrix")
    if value is None:
        return None, True
    matrix = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    is_plain = all(isinstance(items, list) for items in matrix.values())
    if not matrix or not is_plain or {"include", "exclude"} & matrix.keys():
        job.findings.lose(
            strategy.line("matrix"),
            "strategy.matrix: it has more than lists of values",
            "write its combinations in foreach; until then when is false, and the task is skipped",
        )
        return None, False
    if strategy.fields.get("fail-fast") is False:
        job.findings.lose(
            strategy.line("fail-fast"),
            "fail-fast: false: all combinations run although one failed",
            "toleratedFailures of foreach is the number of failures with which the task succeeds",
        )
    strategy.lose_others({"matrix", "fail-fast", "max-parallel"}, {})
    most = strategy.number("max-parallel")
    return {"matrix": matrix, **({"maxParallel": most} if most else {})}, True
