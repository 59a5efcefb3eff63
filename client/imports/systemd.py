"""Timers of systemd: each ``.timer`` with the ``.service`` that it starts."""

import re
import shlex
from typing import Any

from rota.client.definitions import Definition, InvalidFile
from rota.client.imports.drafts import Findings, Source
from rota.client.imports.on_calendar import calendar_time
from rota.client.imports.unit_file import Setting, UnitFile, duration_of, parse_unit

STOP_GRACE_S = "90s"
"""The time to stop of a service that names none (DefaultTimeoutStopSec)."""

_SINCE = ("OnBootSec", "OnStartupSec", "OnActiveSec")
_AFTER = ("OnUnitActiveSec", "OnUnitInactiveSec")
_OF_TIMER = {"OnCalendar", *_SINCE, *_AFTER, "Persistent", "Unit", "AccuracySec", "Description"}
_OF_SERVICE = {"ExecStart", "Environment", "User", "WorkingDirectory", "Description", "Type"} | {
    "TimeoutStartSec", "TimeoutStopSec", "TimeoutSec", "StandardOutput", "StandardError",
}  # fmt: skip
_WITHOUT_EFFECT = {"Documentation", "DefaultDependencies", "RemainAfterElapse", "SyslogIdentifier"}
_TO_JOURNAL = frozenset({"inherit", "journal", "journal+console", "syslog", "kmsg", "null"})
"""The outputs of a service that need no note: a node stores the output of each attempt."""
_WORD = re.compile(r"""(?:\\.|'[^']*'|"(?:\\.|[^"\\])*"|[^\s'"\\])+""", re.DOTALL)
"""A word of a command, with its quotes."""
_OTHER_COMMAND = "make it a task of the job, before or after the command"
_SANDBOX = "a sandbox restricts a command"
_LIMITS = "limits restrict memory, processors and processes"
_REMEDIES = {
    "RandomizedDelaySec": "spread the times of the schedules",
    "ExecStartPre": _OTHER_COMMAND,
    "ExecStartPost": _OTHER_COMMAND,
    "ExecStopPost": _OTHER_COMMAND,
    "ExecCondition": _OTHER_COMMAND,
    "EnvironmentFile": "write the variables in env, and secret ones in secrets",
    "Restart": "retries repeats a failed command",
    "OnFailure": "add onFailure with a webhook or a job",
    "OnSuccess": "add onSuccess with a webhook or a job",
    "MemoryMax": _LIMITS,
    "CPUQuota": _LIMITS,
    "TasksMax": _LIMITS,
    "ProtectSystem": _SANDBOX,
    "ProtectHome": _SANDBOX,
    "PrivateTmp": _SANDBOX,
    "PrivateNetwork": _SANDBOX,
    "NoNewPrivileges": _SANDBOX,
}
_PREFIXES = {
    "-": "a failure of the command is ignored",
    "@": "the second word is the name of the process",
    ":": "variables in the command are not replaced",
    "+": "the command runs with all rights",
    "!": "the command runs with more rights",
    "|": "the command runs in a login shell",
}


def read_timers(sources: list[Source]) -> list[Findings]:
    """Return the jobs in timers and services.

    Raises:
        InvalidFile: A file is not valid, or the service of a timer is missing.
    """
    units = [parse_unit(source) for source in sources]
    services = {unit.name: unit for unit in units if unit.name.endswith(".service")}
    used: set[str] = set()
    for timer in units:
        if timer.name.endswith(".timer"):
            service = _service_of(timer, services)
            _add(timer, service, is_first=service.findings.file not in used)
            used.add(service.findings.file)
        elif timer.name not in services:
            raise timer.findings.invalid(1, "its name ends neither with .timer nor with .service")
    for service in services.values():
        if service.findings.file not in used:
            service.findings.lose(
                1, f"no timer among the files starts {service.name}", "add its timer"
            )
    return [unit.findings for unit in units]


def _service_of(timer: UnitFile, services: dict[str, UnitFile]) -> UnitFile:
    name = timer.text("Unit") or timer.name.removesuffix(".timer") + ".service"
    template = re.sub(r"@.*\.service$", "@.service", name)
    found = services.get(name) or services.get(template)
    if found is None:
        raise InvalidFile(
            f"{timer.findings.file}:1: the service {name} is not among the files; add its file"
        )
    return UnitFile(name, found.findings, found.settings)


def _add(timer: UnitFile, service: UnitFile, *, is_first: bool) -> None:
    # Notes on a service of several timers are made once.
    findings = service.findings if is_first else Findings(service.findings.file)
    service = UnitFile(service.name, findings, service.settings)
    _lose_others(timer, _OF_TIMER)
    _lose_others(service, _OF_SERVICE)
    _lose_outputs(service)
    schedules = _schedules(timer)
    definition: Definition = {
        "description": service.text("Description") or timer.text("Description"),
        "schedules": schedules,
        "misfire": "latest" if timer.flag("Persistent") else "skip",
        # A timer does nothing while its service runs.
        "overlap": "skip",
        **_work(service),
    }
    if not schedules:
        timer.findings.lose(
            1, "no time of the timer is carried over", "add a schedule; the job is started by hand"
        )
    first = min((each.line for each in timer.settings if each.section == "Timer"), default=1)
    timer.findings.add(first, timer.name.removesuffix(".timer"), definition)


def _lose_others(unit: UnitFile, known: set[str]) -> None:
    for each in unit.settings:
        if each.section != "Install" and each.key not in known | _WITHOUT_EFFECT:
            remedy = _REMEDIES.get(each.key, "check whether the job needs it")
            unit.findings.lose(each.line, f"{each.key}={each.value} has no equal", remedy)


def _lose_outputs(service: UnitFile) -> None:
    for key in ("StandardOutput", "StandardError"):
        each = service.last(key)
        if each is not None and each.value not in _TO_JOURNAL:
            service.findings.lose(
                each.line,
                f"{each.key}={each.value}",
                "output is stored; to write it elsewhere, redirect it in the command",
            )


def _schedules(timer: UnitFile) -> list[Any]:  # Any: as in `Definition`
    found: list[Any] = [_on_calendar(timer.findings, each) for each in timer.all("OnCalendar")]
    intervals = [each for key in _AFTER for each in timer.all(key)]
    for each in intervals:
        schedule = f"@every {duration_of(timer.findings, each)}"
        timer.findings.check_schedule(each.line, schedule, "UTC")
        timer.findings.change(
            each.line,
            f"{each.key}={each.value}: counted from the last start or end of the service",
            f"{schedule} is counted from a fixed instant; what is due while the job runs is "
            "skipped",
        )
        found.append(schedule)
    for each in (each for key in _SINCE for each in timer.all(key)):
        timer.findings.lose(
            each.line,
            f"{each.key}={each.value}: after the start of the machine or of the timer",
            "@startup fires when a single node starts; a command can begin with sleep",
        )
    for each in timer.all("AccuracySec"):
        timer.findings.change(
            each.line, f"AccuracySec={each.value}: the time may be later", "rota fires at the time"
        )
    return [each for each in found if each]


def _on_calendar(findings: Findings, setting: Setting) -> object:
    time = calendar_time(setting.value)
    if time is None:
        findings.lose(
            setting.line,
            f"OnCalendar={setting.value} is no cron expression",
            "write its times as several schedules",
        )
        return None
    findings.check_schedule(setting.line, time.schedule, time.timezone or "UTC")
    if not time.timezone:
        findings.change(
            setting.line,
            f"OnCalendar={setting.value} is in the time zone of the machine",
            "the schedule is in UTC; if that is another zone, add timezone to the job",
        )
    if not time.timezone and not time.needs_both_days:
        return time.schedule
    more: dict[str, object] = {"timezone": time.timezone} if time.timezone else {}
    return {"schedule": time.schedule, **more, **({"dayOr": False} if time.needs_both_days else {})}


def _work(service: UnitFile) -> Definition:
    env = _environment(service)
    user = service.last("User")
    first = service.last("ExecStart")
    if first is None:
        raise service.findings.invalid(1, "the service has no ExecStart")
    if user is None:
        service.findings.change(
            first.line,
            "without User the service of the system runs as root",
            "the command runs as the user of the node; add user, or run the node as root",
        )
    else:
        service.findings.change(
            user.line,
            f"the command runs as the user {user.value}",
            f'the nodes have to run as root, with the setting task_users = ["{user.value}"]',
        )
    kind = service.last("Type")
    if kind is not None and kind.value not in ("simple", "exec", "oneshot", "idle"):
        service.findings.lose(
            kind.line, f"Type={kind.value}", "the job ends when its first process ends"
        )
    return {
        "command": _command(service, env),
        "env": env,
        "user": user.value if user else "",
        "cwd": _folder(service),
        "timeout": service.span("TimeoutStartSec") or service.span("TimeoutSec"),
        "stopGrace": service.span("TimeoutStopSec") or service.span("TimeoutSec") or STOP_GRACE_S,
    }


def _folder(service: UnitFile) -> str:
    setting = service.last("WorkingDirectory")
    if setting is None:
        return "/"
    folder = _expanded(service, setting, setting.value.removeprefix("-"))
    if folder.startswith("/"):
        return folder
    service.findings.lose(
        setting.line, f"WorkingDirectory={setting.value}", "write an absolute path in cwd"
    )
    return ""


def _environment(service: UnitFile) -> dict[str, str]:
    env: dict[str, str] = {}
    for setting in service.all("Environment"):
        for word in _words(service, setting, setting.value):
            name, _, value = word.partition("=")
            env[name] = _expanded(service, setting, value)
    return env


def _words(service: UnitFile, setting: Setting, text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise service.findings.invalid(setting.line, f"{setting.key}: {error}") from error


def _command(service: UnitFile, env: dict[str, str]) -> str | list[str]:
    settings = [part for each in service.all("ExecStart") for part in _divided(each)]
    commands = [_program(service, each, env) for each in settings]
    return commands[0] if len(commands) == 1 else " && ".join(map(shlex.join, commands))


def _divided(setting: Setting) -> list[Setting]:
    """Return the commands of a setting: a word ``;`` without quotes divides them."""
    words = [*_WORD.finditer(setting.value)]
    ends = [word.span() for word in words if word[0] == ";"]
    begins = [0, *(end for _, end in ends)]
    stops = [*(begin for begin, _ in ends), len(setting.value)]
    texts = [setting.value[begin:stop].strip() for begin, stop in zip(begins, stops, strict=True)]
    return [setting._replace(value=text) for text in texts if text]


def _program(service: UnitFile, setting: Setting, env: dict[str, str]) -> list[str]:
    text = setting.value.lstrip("-@:+!|")
    for prefix in dict.fromkeys(setting.value[: len(setting.value) - len(text)]):
        service.findings.lose(
            setting.line,
            f"the prefix {prefix} of ExecStart: {_PREFIXES[prefix]}",
            "check whether the command needs it",
        )
    words: list[str] = []
    for word in _words(service, setting, text):
        plain = _expanded(service, setting, word)
        if re.fullmatch(r"\$[A-Za-z_]\w*", plain):
            words += _value(service, setting, env, plain[1:]).split()
        else:
            words.append(_with_variables(service, setting, env, plain))
    if not words:
        raise service.findings.invalid(setting.line, "ExecStart has no program")
    return words


def _with_variables(service: UnitFile, setting: Setting, env: dict[str, str], word: str) -> str:
    """Return *word* with the values of ``${NAME}``; ``$$`` is a dollar sign."""
    return re.sub(
        r"\$\$|\$\{([A-Za-z_]\w*)\}",
        lambda found: "$" if found[1] is None else _value(service, setting, env, found[1]),
        word,
    )


def _value(service: UnitFile, setting: Setting, env: dict[str, str], name: str) -> str:
    if name not in env:
        service.findings.lose(
            setting.line,
            f"the variable {name} of ExecStart has no value in Environment",
            "write the value in the command",
        )
    return env.get(name, "")


def _expanded(service: UnitFile, setting: Setting, text: str) -> str:
    """Return *text* with the values of the specifiers that follow from the name of the unit."""
    stem = service.name.removesuffix(".service")
    prefix, _, instance = stem.partition("@")
    values = {"%": "%", "n": service.name, "N": stem, "p": prefix, "i": instance}

    def value(found: re.Match[str]) -> str:
        if found[1] not in values:
            service.findings.lose(
                setting.line,
                f"the specifier %{found[1]} of {setting.key}",
                "write its value in the definition",
            )
        return values.get(found[1], found[0])

    return re.sub(r"%([%A-Za-z])", value, text)
