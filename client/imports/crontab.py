"""Crontabs of Vixie cron, Debian's cron and cronie.

A crontab has entries, which are a schedule and a command, and variables, which hold for the
entries below them. In the system form, that of ``/etc/crontab`` and ``/etc/cron.d``, a user
stands between schedule and command.
"""

import re
from dataclasses import dataclass, field

from rota.client.definitions import InvalidFile
from rota.client.imports.drafts import DESCRIPTION_MAX, Findings, Source
from rota.client.imports.job_names import name_of_command

_VARIABLE = re.compile(r"""(["']?)([A-Za-z_]\w*)\1\s*=\s*(.*)""")
_FORMS = {
    **{f"@{name}": f"@{name}" for name in ("yearly", "annually", "monthly", "weekly", "daily")},
    "@midnight": "@midnight",
    "@hourly": "@hourly",
    "@every_minute": "* * * * *",
    "@reboot": "@startup",
}
_SYSTEM_PATHS = re.compile(r"/etc/(crontab|cron\.d/[^/]+)")
_DISABLED = re.compile(r"\s*([\d*,/-]+\s+){5}\S")
_DRAWING = re.compile(r"\s*([|.*]|m\s+h\s)")
"""Comments that explain the fields of a crontab."""
_USER_COLUMN = re.compile(r"(?i)\buser(-?name)?\s+command\b")
"""The comment with which distributions explain the fields of the system form."""
_USERS = re.compile(r"(root|www-data|ubuntu|ec2-user|_\w+)\s+[^-\s]")
"""Users of common systems, before a command; those that are also programs are left out."""
_SHELL = "/bin/sh"


def read_crontabs(sources: list[Source]) -> list[Findings]:
    """Return the jobs in crontabs.

    Raises:
        InvalidFile: Lines are not valid; the message has a line about each of them.
    """
    refused: list[InvalidFile] = []
    found = [_read(source, refused) for source in sources]
    if refused:
        raise InvalidFile("\n".join(map(str, refused)))
    return found


def is_system_path(path: str) -> bool:
    """Return True if a crontab at *path* has the system form."""
    return _SYSTEM_PATHS.fullmatch(path) is not None


@dataclass(slots=True)
class _Above:
    """What the lines above an entry have set."""

    variables: dict[str, str] = field(default_factory=dict[str, str])
    timezone: str = ""
    comments: list[str] = field(default_factory=list[str])


def _read(source: Source, refused: list[InvalidFile]) -> Findings:
    """Return the findings in a crontab, and add the errors about its lines to *refused*."""
    found = Findings(source.name)
    is_system = is_system_path(source.name) if source.is_system is None else source.is_system
    above = _Above()
    for number, raw in enumerate(source.text.split("\n"), 1):
        line = raw.strip()
        if line.startswith("#"):
            above.comments.append(line[1:])
            continue
        try:
            if variable := _VARIABLE.fullmatch(line):
                _set(found, number, above, name=variable[2], value=_unquoted(variable[3]))
            elif line:
                _add_entry(found, number, line, above, is_system=is_system)
        except InvalidFile as error:
            refused.append(error)
        above.comments = []
    if source.is_system is None and not is_system:
        _note_users(found, source)
    return found


def _note_users(found: Findings, source: Source) -> None:
    """Add a note if the commands seem to begin with the users of the system form."""
    commands = [each.definition.get("command", "") for each in found.drafts]
    # Another shell has the command as its last word.
    texts = [each if isinstance(each, str) else each[-1] for each in commands]
    comments = [each for each in source.text.split("\n") if each.lstrip().startswith("#")]
    is_explained = any(map(_USER_COLUMN.search, comments))
    shows_user = str.split if is_explained else _USERS.match
    seen = next((number for number, text in enumerate(texts) if shows_user(text)), None)
    if seen is not None:
        found.lose(
            found.drafts[seen].line,
            f"{texts[seen].split(None, 1)[0]} seems to be the user of the entry, as in "
            "/etc/crontab; here it is the first word of the command",
            "if it is, import the file with rota import crontab --system",
        )


def _unquoted(text: str) -> str:
    value = text.strip()
    is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if is_quoted else value


def _set(found: Findings, number: int, above: _Above, *, name: str, value: str) -> None:
    if name in ("MAILTO", "MAILFROM"):
        if value and name == "MAILTO":
            found.lose(
                number,
                f"MAILTO={value}: cron sends the output of the commands below",
                "add onFailure with a webhook, or with a job that sends mail; output is stored",
            )
    elif name == "RANDOM_DELAY":
        found.lose(number, f"RANDOM_DELAY={value}", "spread the minutes of the schedules")
    elif name in ("CRON_TZ", "TZ"):
        found.check_schedule(number, "@daily", value)
        _set_timezone(found, number, above, name=name, value=value)
    else:
        above.variables[name] = value


def _set_timezone(found: Findings, number: int, above: _Above, *, name: str, value: str) -> None:
    if name == "CRON_TZ":
        above.timezone = value
        return
    above.variables[name] = value
    if not above.timezone:
        found.change(
            number,
            f"TZ={value}: some versions of cron use it for the commands alone",
            "it is the time zone of the schedules, too; change timezone if that is wrong",
        )


def _add_entry(found: Findings, number: int, line: str, above: _Above, *, is_system: bool) -> None:
    schedule, rest = _schedule_in(found, number, line)
    user = ""
    if is_system:
        user, _, rest = _first_word(rest)
    if not rest:
        form = "a schedule, a user and a command" if is_system else "a schedule and a command"
        raise found.invalid(number, f"{line!r} is no entry; an entry has {form}")
    if "~" in schedule:
        found.lose(
            number,
            f"{schedule}: a random time (~); the entry is left out",
            "write a fixed time and import the file again",
        )
        return
    timezone = above.timezone or above.variables.get("TZ", "")
    found.check_schedule(number, schedule, timezone or "UTC")
    _note_entry(found, number, above, schedule=schedule, user=user)
    command, stdin = _split_at_percent(rest)
    found.add(
        number,
        name_of_command(command),
        {
            "description": _description(above.comments),
            "schedule": schedule,
            "timezone": timezone,
            "command": _command(command, above.variables),
            "stdin": stdin,
            "user": user,
            "env": dict(above.variables),
            "cwd": above.variables.get("HOME", ""),
            "misfire": "skip",
        },
    )


def _schedule_in(found: Findings, number: int, line: str) -> tuple[str, str]:
    """Return the schedule with which an entry begins, and the rest of the entry."""
    if line.startswith("@"):
        form, _, rest = _first_word(line)
        if form.lower() not in _FORMS:
            forms = ", ".join(_FORMS)
            raise found.invalid(number, f"there is no schedule {form}; cron has {forms}")
        return _FORMS[form.lower()], rest
    # cronie writes no record of an entry that begins with a hyphen.
    words = line.removeprefix("-").split(None, 5)
    if len(words) < 6:
        detail = "an entry has five fields (minute hour day month weekday) and a command"
        raise found.invalid(number, f"{line!r} is no entry; {detail}")
    return " ".join(words[:5]), words[5]


def _first_word(text: str) -> tuple[str, str, str]:
    word, *rest = text.split(None, 1)
    return word, " ", rest[0] if rest else ""


def _note_entry(found: Findings, number: int, above: _Above, *, schedule: str, user: str) -> None:
    if schedule == "@startup":
        found.change(
            number,
            "@reboot: cron starts the command when the machine starts",
            "@startup fires when a single node starts, and never in a cluster; for a cluster use "
            "a unit of systemd",
        )
    if user:
        found.change(
            number,
            f"the command runs as the user {user}",
            f'the nodes have to run as root, with the setting task_users = ["{user}"]; or remove '
            "the field user",
        )
    if found.drafts:
        return
    # These differences hold for all entries; one note is enough.
    if not above.timezone and "TZ" not in above.variables:
        found.change(
            number,
            "cron uses the time zone of its machine, which the file does not name",
            "the schedules are in UTC; if that is another zone, write CRON_TZ=ZONE above the "
            "entries and import again",
        )
    if "HOME" not in above.variables:
        found.change(
            number,
            "cron starts commands in the home directory of the user",
            "commands start in an empty directory; add cwd where paths are relative",
        )


def _split_at_percent(text: str) -> tuple[str, str]:
    r"""Return the command and its standard input, whose lines begin after percent signs."""
    command, *lines = (part.replace("\\%", "%") for part in re.split(r"(?<!\\)%", text))
    return command.strip(), "".join(f"{line}\n" for line in lines)


def _command(command: str, variables: dict[str, str]) -> str | list[str]:
    shell = variables.get("SHELL", _SHELL)
    return command if shell == _SHELL else [shell, "-c", command]


def _description(comments: list[str]) -> str:
    """Return the comments directly above an entry; an explanation of the fields is none."""
    if any(_DRAWING.match(comment) for comment in comments):
        return ""
    last = max((n for n, each in enumerate(comments, 1) if _DISABLED.match(each)), default=0)
    return "\n".join(comment.strip() for comment in comments[last:]).strip()[:DESCRIPTION_MAX]
