"""CronJobs of Kubernetes: manifests in YAML or JSON, also as a list."""

import re
from typing import Any

from rota.client.definitions import Definition
from rota.client.imports.drafts import Findings, Source
from rota.client.imports.go_cron import read_schedule
from rota.client.imports.located import Located, documents_in

BACKOFF_LIMIT = 6
"""The retries of a Job that names none (batch/v1, ``backoffLimit``)."""
RETRY_DELAYS: Definition = {"delay": "10s", "maxDelay": "6m"}
"""The delays of Kubernetes: 10 s, 20 s, 40 s ... up to six minutes."""
STOP_GRACE_S = 30

_PULL = {"Always": "always", "IfNotPresent": "missing", "Never": "never"}
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)(Ki|Mi|Gi|Ti|k|M|G|T|)")
_REFERENCE = re.compile(r"\$(\$*)\(([A-Za-z_][\w.-]*)\)")
_HISTORY = "the setting history of the nodes keeps executions by age"
_VOLUMES = "use binds of container, or secrets as files"
_REMEDIES = {
    "successfulJobsHistoryLimit": _HISTORY,
    "failedJobsHistoryLimit": _HISTORY,
    "ttlSecondsAfterFinished": _HISTORY,
    "volumes": _VOLUMES,
    "volumeMounts": _VOLUMES,
    "envFrom": "write the variables in env, and secret ones in secrets",
    "initContainers": "make them tasks that the task needs",
    "serviceAccountName": "a job with identity: true has a token for rota; others are secrets",
    "imagePullSecrets": "log the container engine of the nodes in to the registry",
    "parallelism": "make a task of each part",
    "completions": "make a task of each part",
    "securityContext": "container has a user; the containers of rota have few capabilities",
    "podFailurePolicy": "retries has onExitCodes and neverOnExitCodes",
    "annotations": "labels are carried over",
    "requests": "limits alone are carried over",
}
_METADATA = frozenset(
    {"name", "namespace", "labels", "creationTimestamp", "uid", "resourceVersion", "generation"}
    | {"managedFields", "selfLink"}
)
_OF_CRONJOB = frozenset(
    {"schedule", "timeZone", "suspend", "concurrencyPolicy", "startingDeadlineSeconds"}
    | {"jobTemplate"}
)
_OF_JOB = frozenset({"backoffLimit", "activeDeadlineSeconds", "template"})
_OF_POD = frozenset(
    {"containers", "restartPolicy", "nodeSelector", "terminationGracePeriodSeconds"}
    | {"activeDeadlineSeconds", "hostNetwork", "dnsPolicy", "schedulerName", "serviceAccount"}
)
_OF_CONTAINER = frozenset(
    {"name", "image", "command", "args", "env", "imagePullPolicy", "workingDir", "resources"}
    | {"terminationMessagePath", "terminationMessagePolicy"}
)


def read_cronjobs(sources: list[Source]) -> list[Findings]:
    """Return the jobs in manifests.

    Raises:
        InvalidFile: A manifest is not valid.
    """
    return [_read(source) for source in sources]


def _read(source: Source) -> Findings:
    findings = Findings(source.name)
    for document in documents_in(source, findings, items_key="items"):
        kind = document.text("kind")
        if kind == "CronJob":
            _add(findings, document)
        else:
            findings.lose(
                document.line("kind"),
                f"the document is no CronJob, but has the kind {kind or 'of nothing'}",
                "carry over what the jobs need of it",
            )
    return findings


def _add(findings: Findings, document: Located) -> None:
    metadata, spec = document.within("metadata"), document.within("spec")
    name = metadata.text("name")
    if not name:
        raise findings.invalid(document.line("metadata"), "the CronJob has no metadata.name")
    job = spec.within("jobTemplate").within("spec")
    pod = job.within("template").within("spec")
    definition: Definition = {
        "namespace": metadata.text("namespace"),
        "labels": metadata.mapping("labels"),
        **_timing(findings, spec),
        **_attempts(job, pod),
        **_work(findings, pod),
    }
    metadata.lose_others(_METADATA, _REMEDIES)
    spec.lose_others(_OF_CRONJOB, _REMEDIES)
    job.lose_others(_OF_JOB | _single(job), _REMEDIES)
    pod.lose_others(_OF_POD, _REMEDIES)
    for each in (spec.within("jobTemplate"), job.within("template")):
        each.within("metadata").lose_others({"creationTimestamp", "name"}, _REMEDIES)
    findings.add(document.line(), name, definition)


def _single(job: Located) -> set[str]:
    """Return the numbers of pods that are 1, as in rota."""
    return {key for key in ("parallelism", "completions") if job.number(key) == 1}


def _timing(findings: Findings, spec: Located) -> Definition:
    line = spec.line("schedule")
    text = spec.text("schedule")
    if not text:
        raise findings.invalid(spec.line(), "the CronJob has no spec.schedule")
    schedule, timezone = read_schedule(findings, line, text, spec.text("timeZone"))
    deadline_s = spec.number("startingDeadlineSeconds")
    timing: Definition = {
        "schedule": schedule,
        "timezone": timezone,
        "overlap": _overlap(findings, spec, has_deadline=deadline_s is not None),
    }
    if deadline_s is not None:
        timing |= {"misfire": "skip", "grace": f"{deadline_s}s"}
    if spec.flag("suspend"):
        del timing["schedule"]
        findings.lose(
            spec.line("suspend"),
            "suspend: a definition cannot be paused, so this one has no schedule",
            f'to let it fire, add schedule: "{schedule}"; rota jobs pause stops a job',
        )
    return timing


def _overlap(findings: Findings, spec: Located, *, has_deadline: bool) -> str:
    policy, line = spec.text("concurrencyPolicy", "Allow"), spec.line("concurrencyPolicy")
    match policy:
        case "Allow":
            return ""
        case "Forbid" if not has_deadline:
            # What is due while a Job runs is started when it has ended.
            return "queue_one"
        case "Forbid":
            findings.change(
                line,
                "Forbid: what is due while a Job runs starts after it, within the deadline",
                "the fire is skipped; use overlap: queue_one to run it in any case",
            )
            return "skip"
        case "Replace":
            return "cancel_running"
        case _:
            raise spec.invalid("concurrencyPolicy", "Allow, Forbid or Replace")


def _attempts(job: Located, pod: Located) -> Definition:
    limit = job.number("backoffLimit")
    retries = BACKOFF_LIMIT if limit is None else limit
    deadline_s, attempt_s = job.number("activeDeadlineSeconds"), pod.number("activeDeadlineSeconds")
    grace_s = pod.number("terminationGracePeriodSeconds")
    return {
        "retries": {"limit": retries, **RETRY_DELAYS} if retries else None,
        "executionTimeout": f"{deadline_s}s" if deadline_s else "",
        "timeout": f"{attempt_s}s" if attempt_s else "",
        "stopGrace": f"{STOP_GRACE_S if grace_s is None else grace_s}s",
        "nodeSelector": pod.mapping("nodeSelector"),
    }


def _work(findings: Findings, pod: Located) -> Definition:
    containers = pod.objects("containers")
    if not containers:
        raise findings.invalid(pod.line(), "the pod of the CronJob has no containers")
    for each in containers[1:]:
        findings.lose(
            each.line(),
            f"the container {each.text('name')} beside the first",
            "make it a task of the job, or a job of its own",
        )
    first = containers[0]
    first.lose_others(_OF_CONTAINER, _REMEDIES)
    image = first.text("image")
    if not image:
        raise findings.invalid(first.line(), "the container has no image")
    env = _environment(findings, first)
    return {
        "container": {
            "image": image,
            "pull": _pull(first, image),
            **({"network": "host"} if pod.flag("hostNetwork") else {}),
        },
        "command": _command(findings, first, env),
        "env": env,
        "cwd": first.text("workingDir"),
        "limits": _limits(findings, first.within("resources")),
    }


def _pull(container: Located, image: str) -> str:
    """Return when the image is pulled; the default of Kubernetes depends on its tag."""
    tag = image.rpartition("/")[2].partition(":")[2]
    is_fixed = "@" in image or tag not in ("", "latest")
    policy = container.text("imagePullPolicy", "IfNotPresent" if is_fixed else "Always")
    if policy not in _PULL:
        raise container.invalid("imagePullPolicy", "Always, IfNotPresent or Never")
    return _PULL[policy]


def _environment(findings: Findings, container: Located) -> dict[str, str]:
    env: dict[str, str] = {}
    for each in container.objects("env"):
        name = each.text("name")
        if "valueFrom" in each.fields:
            findings.lose(
                each.line("valueFrom"),
                f"the variable {name} is from another object",
                f"rota secret set stores a secret, and secrets.env gives it as {name}",
            )
        else:
            env[name] = _expanded(each.text("value"), env)
    return env


def _expanded(text: str, env: dict[str, str]) -> str:
    """Return *text* with the values of ``$(NAME)``; of two dollar signs one is left."""

    def value(found: re.Match[str]) -> str:
        dollars = found[1]
        if len(dollars) % 2:
            return f"{'$' * ((len(dollars) + 1) // 2)}({found[2]})"
        return "$" * (len(dollars) // 2) + env.get(found[2], f"$({found[2]})")

    return _REFERENCE.sub(value, text)


def _command(findings: Findings, container: Located, env: dict[str, str]) -> list[str]:
    command, arguments = container.texts("command"), container.texts("args")
    if arguments and not command:
        findings.lose(
            container.line("args"),
            "args without command: arguments of the image's entry point",
            "write the entry point as the first item of command",
        )
    return [_expanded(word, env) for word in (*command, *arguments)]


def _limits(findings: Findings, resources: Located) -> dict[str, Any]:  # Any: as in `Definition`
    limits = resources.within("limits")
    found: dict[str, Any] = {}
    cpu, memory = limits.text("cpu"), _MEMORY.fullmatch(limits.text("memory"))
    if re.fullmatch(r"\d+(\.\d+)?m?", cpu):
        found["cpu"] = float(cpu.removesuffix("m")) / (1000 if cpu.endswith("m") else 1)
    if memory:
        number, unit = memory.groups()
        found["memory"] = f"{number}{unit}B" if unit else int(float(number))
        found["memory"] = f"{number}kB" if unit == "k" else found["memory"]
    limits.lose_others(found.keys(), {})
    resources.lose_others({"limits"}, _REMEDIES)
    return found
