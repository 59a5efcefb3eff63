"""Jobs of Dkron: JSON of one job or of a list, as ``GET /v1/jobs`` returns it."""

import shlex
from collections.abc import Mapping

from rota.client.definitions import Definition
from rota.client.imports.dkron_http import http_command
from rota.client.imports.drafts import DESCRIPTION_MAX, Findings, Source
from rota.client.imports.go_cron import read_schedule
from rota.client.imports.job_names import plain_name
from rota.client.imports.located import Located, documents_in

_HASHED = ((60, 0), (60, 0), (24, 0), (28, 1), (12, 1), (7, 0))
"""The number of values of each field whose value ``~`` follows from the name, and the first."""
_IS_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_STATE = frozenset(
    {"id", "success_count", "error_count", "last_success", "last_error", "status", "next"}
    | {"modified"}
)
_CARRIED = frozenset(
    {"name", "displayname", "schedule", "timezone", "owner", "disabled", "tags", "retries"}
    | {"dependent_jobs", "parent_job", "concurrency", "executor", "executor_config", "metadata"}
)
_OF_SHELL = frozenset({"command", "shell", "env", "cwd", "timeout", "mem_limit_kb"})
_REMEDIES = {
    "owner_email": "add onFailure with a webhook, or with a job that sends mail",
    "processors": "output is stored: rota output shows it, and rota events follows the ends",
    "ephemeral": "delete the job after it has succeeded: onSuccess can start a job that does so",
    "expires_at": "delete or pause the job at this time",
    "starts_at": "apply the definition at this time",
    "payload": "write the text in stdin",
}


def read_dkron(sources: list[Source]) -> list[Findings]:
    """Return the jobs in JSON of Dkron.

    Raises:
        InvalidFile: A file is not valid.
    """
    found = [Findings(source.name) for source in sources]
    jobs = [
        job
        for source, findings in zip(sources, found, strict=True)
        for job in documents_in(source, findings)
    ]
    parents = _parents(jobs)
    for job in jobs:
        _add(job, parents)
    return found


def _parents(jobs: list[Located]) -> Mapping[str, list[str]]:
    """Return the names of the jobs after which each job runs; both sides may name them."""
    names = {job.text("name") for job in jobs}
    found: dict[str, list[str]] = {}
    for job in jobs:
        if parent := job.text("parent_job"):
            found.setdefault(job.text("name"), []).append(parent)
            if parent not in names:
                job.findings.change(
                    job.line("parent_job"),
                    f"the job {parent}, after which this one runs, is not among the files",
                    "apply its definition first",
                )
        for child in job.texts("dependent_jobs"):
            found.setdefault(child, []).append(job.text("name"))
            if child not in names:
                job.findings.lose(
                    job.line("dependent_jobs"),
                    f"the job {child}, which runs after this one, is not among the files",
                    "import its file, too",
                )
    return {child: list(dict.fromkeys(each)) for child, each in found.items()}


def _add(job: Located, parents: Mapping[str, list[str]]) -> None:
    name = job.text("name")
    if not name:
        raise job.findings.invalid(job.line(), "the job has no name")
    work = _work(job)
    if work is None:
        return
    needed = parents.get(name, [])
    owner = job.text("owner")
    retries = job.number("retries")
    job.lose_others(_CARRIED | _STATE, _REMEDIES)
    definition: Definition = {
        "description": job.text("displayname")[:DESCRIPTION_MAX],
        **({} if needed else _timing(job, name)),
        "dependencies": [plain_name(each) for each in needed],
        "overlap": _overlap(job),
        # A failed command is started again at once.
        "retries": {"limit": retries, "backoff": "fixed", "delay": 0} if retries else None,
        "nodeSelector": _nodes(job),
        "labels": {**({"owner": owner} if owner else {}), **job.mapping("metadata")},
        **work,
    }
    if needed and job.flag("disabled"):
        job.findings.lose(job.line("disabled"), "disabled", "pause the job with rota jobs pause")
    job.findings.add(job.line(), name, definition)


def _timing(job: Located, name: str) -> Definition:
    findings, line = job.findings, job.line("schedule")
    text = job.text("schedule")
    if not text:
        raise findings.invalid(job.line(), "the job has neither a schedule nor a parent_job")
    text = _with_hash(job, name, "0 * * * * *" if text == "@minutely" else text)
    schedule, timezone = read_schedule(findings, line, text, job.text("timezone"))
    has_times = not schedule.startswith(("@every", "@at", "@manual"))
    if has_times and not timezone:
        findings.change(
            line,
            f"{text} is in the time zone of the servers",
            "the schedule is in UTC; if that is another zone, add timezone to the job",
        )
    timing: Definition = {"schedule": schedule, "timezone": timezone, "misfire": "skip"}
    if job.flag("disabled"):
        findings.lose(
            job.line("disabled"),
            "disabled: a definition cannot be paused, so this one has no schedule",
            f'to let it fire, add schedule: "{schedule}"; rota jobs pause stops a job',
        )
        del timing["schedule"]
    return timing


def _with_hash(job: Located, name: str, schedule: str) -> str:
    """Return *schedule* with the values for which ``~`` stands: they follow from the name."""
    fields = schedule.split()
    if "~" not in schedule or len(fields) != len(_HASHED):
        return schedule
    number = sum(map(ord, name))
    values = [str(number % count + first) for count, first in _HASHED]
    fixed = " ".join(field.replace("~", value) for field, value in zip(fields, values, strict=True))
    job.findings.change(
        job.line("schedule"),
        f"{schedule}: the times at ~ follow from the name of the job",
        f"the schedule is {fixed}; compare it with the next times that Dkron shows",
    )
    return fixed


def _overlap(job: Located) -> str:
    match job.text("concurrency", "allow") or "allow":
        case "allow":
            return ""
        case "forbid":
            return "skip"
        case _:
            raise job.invalid("concurrency", "allow or forbid")


def _nodes(job: Located) -> dict[str, str]:
    """Return the labels of the node; a count of nodes follows the value of a tag."""
    tags = job.mapping("tags")
    selector: dict[str, str] = {}
    counts: list[int] = []
    for key, text in tags.items():
        selector[key], colon, count = text.partition(":")
        if colon:
            if not count.isdecimal():
                raise job.within("tags").invalid(key, "a value, or a value and a number of nodes")
            counts.append(int(count))
    if min(counts, default=2) > 1:
        number = f"{min(counts)} nodes" if counts else "every node"
        job.findings.lose(
            job.line("tags"),
            f"tags: the job runs on {number}" + (" with these tags" if tags else ""),
            "the job runs on one node; make a job for each node, with a label of its own",
        )
    return selector


def _work(job: Located) -> Definition | None:
    """Return the command; None for an executor of another kind."""
    config = job.within("executor_config")
    match job.text("executor"):
        case "shell":
            return _shell_work(config)
        case "http":
            return http_command(config)
        case name:
            job.findings.lose(
                job.line("executor"),
                f"the executor {name or 'without a name'}; the job is left out",
                "add a job with a command that does the same",
            )
            return None


def _shell_work(config: Located) -> Definition:
    command, findings = config.text("command"), config.findings
    if not command.strip():
        raise findings.invalid(config.line(), "executor_config has no command")
    if not config.text("cwd"):
        findings.change(
            config.line("command"),
            "Dkron starts commands in the directory of its agent",
            "commands start in an empty directory; add cwd where paths are relative",
        )
    config.lose_others(_OF_SHELL, _REMEDIES)
    memory_kb = config.text("mem_limit_kb")
    return {
        "command": command if config.text("shell") in _IS_TRUE else _words(config, command),
        "env": _environment(config),
        "cwd": config.text("cwd"),
        "timeout": config.text("timeout"),
        "limits": {"memory": f"{memory_kb}KiB"} if memory_kb else None,
    }


def _words(config: Located, command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        raise config.findings.invalid(config.line("command"), f"command: {error}") from error


def _environment(config: Located) -> dict[str, str]:
    env: dict[str, str] = {}
    for item in filter(None, config.text("env").split(",")):
        name, is_set, value = item.partition("=")
        if not is_set:
            raise config.invalid("env", "a list of NAME=VALUE, with commas between them")
        env[name] = value
    return env
