"""The fields of a job, one row each.

Type, default and meaning of a field are those of `JobBody`. A row adds how the field is stored in
`JobSpec`, its flag of ``rota jobs create``, and whether tasks and namespaces have it, too. From the
rows follow the conversions of `rota.wire.bodies.job_bodies` and ``job_definitions``, the
flags, the table of docs/reference/jobs.md and the JSON Schema of a job.

A new field is an attribute of `JobBody` and of `JobSpec`, and a row here.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, Literal, get_args, get_origin

import msgspec

from rota.core.model.job import JobSpec
from rota.core.model.work_checks import PROFILES
from rota.wire.documents import JobBody


class Form(Enum):
    """The form in which a field is stored in `JobSpec`, under the same name."""

    SAME = "same"
    """As in the body."""
    CHOICE = "choice"
    """A member of the enumeration that is the type of the default."""
    DURATION = "duration"
    """Microseconds."""
    NAMES = "names"
    """A list of texts, as a tuple."""
    PAIRS = "pairs"
    """An object of texts, as sorted pairs."""
    JSON = "json"
    """JSON text; empty for null."""
    OWN = "own"
    """Not alone: conversions name the field."""


@dataclass(frozen=True, slots=True)
class Flag:
    """The flag of a field in the CLI.

    Attributes:
        help: A sentence; the default is added.
        names: Its names; empty for that of the field.
        metavar: The form of its value; empty for a choice or a number.
        choices: Its values, if they are fewer than those of the field.
        is_repeatable: Whether it may be given several times.
        is_of_work: Whether ``rota run`` has it, too: what a job runs, and how.
    """

    help: str
    names: tuple[str, ...] = ()
    metavar: str = ""
    choices: tuple[str, ...] = ()
    is_repeatable: bool = False
    is_of_work: bool = False


@dataclass(frozen=True)
class JobField:
    """A field of a job.

    Attributes:
        name: Its name in Python.
        form: How it is stored.
        flag: Its flag; None for none.
        more: The heading of docs/reference/jobs.md, or the page, that explains it.
        is_of_tasks: Whether a task has the field, too, and that of the job is its default.
        has_default: Whether a namespace may have a default for it.
    """

    name: str
    form: Form = Form.OWN
    flag: Flag | None = None
    more: str = ""
    is_of_tasks: bool = False
    has_default: bool = False

    @cached_property
    def _declared(self) -> msgspec.structs.FieldInfo:
        return next(each for each in msgspec.structs.fields(JobBody) if each.name == self.name)

    @cached_property
    def key(self) -> str:
        """Its name in JSON."""
        return self._declared.encode_name

    @cached_property
    def type(self) -> Any:
        """Its type in `JobBody`."""
        return self._declared.type

    @cached_property
    def default(self) -> Any:
        """Its default in `JobBody`."""
        made = self._declared.default_factory
        return self._declared.default if made is msgspec.NODEFAULT else made()

    @cached_property
    def stored_default(self) -> Any:
        """Its default in `JobSpec`."""
        return next(
            each.default for each in msgspec.structs.fields(JobSpec) if each.name == self.name
        )

    @cached_property
    def choices(self) -> tuple[str, ...]:
        """The texts that it permits; empty if it permits other values."""
        types = [self.type, *get_args(self.type)]
        return next((get_args(each) for each in types if get_origin(each) is Literal), ())


JOB_FIELDS = (
    JobField("name", more="types.md"),
    JobField("namespace", more="namespaces.md"),
    JobField(
        "description",
        Form.SAME,
        Flag("Description of the job.", metavar="TEXT", is_of_work=True),
    ),
    JobField("schedule", more="schedules.md"),
    JobField(
        "schedules",
        flag=Flag(
            'Schedule: "*/5 * * * *", "@every 90s", "@daily"; once: "@at 2027-01-01T09:00:00Z", '
            '"@at 2027-01-01T09:00+01:00", or "@at 2027-01-01T09:00" for that local time in '
            "--timezone. Repeatable; without it, when triggered.",
            ("--schedule",),
            "TEXT",
            is_repeatable=True,
        ),
        more="#fields-of-a-schedule",
    ),
    JobField("timezone", flag=Flag("Time zone of the schedules.", metavar="ZONE")),
    JobField(
        "only_calendars",
        Form.NAMES,
        Flag(
            "Calendar that has the fire times; others are excluded. Repeatable.",
            ("--only-calendar",),
            "NAME",
            is_repeatable=True,
        ),
        more="calendars.md",
        has_default=True,
    ),
    JobField(
        "except_calendars",
        Form.NAMES,
        Flag(
            "Calendar whose times are excluded, such as holidays. Repeatable.",
            ("--except-calendar",),
            "NAME",
            is_repeatable=True,
        ),
        more="calendars.md",
        has_default=True,
    ),
    JobField("on_excluded", Form.CHOICE, more="calendars.md#excluded-fire-times", has_default=True),
    JobField("command", more="#fields-of-a-task"),
    JobField(
        "python",
        flag=Flag(
            "Call module:function instead of a command.", metavar="FUNCTION", is_of_work=True
        ),
        more="#python-functions",
    ),
    JobField(
        "type",
        flag=Flag(
            "Job type, which has the command and more; without a name the job runs once, "
            "immediately.",
            metavar="TYPE",
            is_of_work=True,
        ),
        more="types.md",
    ),
    JobField(
        "parameters",
        flag=Flag(
            "Parameters of its executions, such as '{\"width\": 640}'.",
            metavar="JSON",
            is_of_work=True,
        ),
        more="#parameters",
    ),
    JobField("parameters_schema", Form.JSON, more="flows.md#parameters"),
    JobField("tasks", more="#fields-of-a-task"),
    JobField("triggers", more="#events-from-outside"),
    JobField(
        "dependencies",
        flag=Flag(
            "Run after this job has succeeded; if repeated, after all of these jobs have.",
            ("--after",),
            "JOB",
            is_repeatable=True,
        ),
        more="#dependencies-between-jobs",
    ),
    JobField(
        "retries",
        flag=Flag("Number of retries after a failed attempt.", is_of_work=True),
        more="#retries",
        is_of_tasks=True,
        has_default=True,
    ),
    JobField(
        "timeout",
        flag=Flag("Timeout of an attempt, such as 10m.", metavar="DURATION"),
        more="#timeouts",
        is_of_tasks=True,
        has_default=True,
    ),
    JobField("stop_grace", is_of_tasks=True, has_default=True),
    JobField(
        "container",
        flag=Flag(
            "Run its command, or the command of the image, in a container.",
            ("--image",),
            "IMAGE",
            is_of_work=True,
        ),
        more="#containers",
        is_of_tasks=True,
    ),
    JobField(
        "sandbox",
        flag=Flag("Sandbox of its command.", choices=PROFILES, is_of_work=True),
        more="#sandboxes",
        is_of_tasks=True,
        has_default=True,
    ),
    JobField("limits", more="#limits-of-an-attempt", is_of_tasks=True, has_default=True),
    JobField("node_selector", more="#where-tasks-run", is_of_tasks=True, has_default=True),
    JobField(
        "misfire",
        Form.CHOICE,
        Flag("Fire times missed in an outage that still run; required for an @at in the past."),
        more="#misfires",
        has_default=True,
    ),
    JobField("grace", Form.DURATION, more="#misfires", has_default=True),
    JobField("misfire_window", Form.DURATION, more="#misfires", has_default=True),
    JobField("misfire_max", Form.SAME, more="#misfires"),
    JobField(
        "overlap",
        Form.CHOICE,
        Flag("Behaviour if it fires while an earlier execution runs."),
        more="#overlap",
        has_default=True,
    ),
    JobField(
        "consistency",
        Form.CHOICE,
        Flag("available: fires without a primary, too, possibly twice."),
        more="#consistency",
    ),
    JobField(
        "priority",
        Form.SAME,
        Flag("Its tasks get free slots before those of lower priorities.", is_of_work=True),
        more="#priority",
        has_default=True,
    ),
    JobField(
        "start_deadline",
        Form.DURATION,
        Flag(
            "Longest wait of an execution for its first attempt; then it fails.", metavar="DURATION"
        ),
        more="#deadlines",
        has_default=True,
    ),
    JobField(
        "execution_timeout",
        Form.DURATION,
        Flag("Timeout of a whole execution, with retries and all tasks.", metavar="DURATION"),
        more="#deadlines",
        has_default=True,
    ),
    JobField(
        "max_parallel",
        Form.SAME,
        Flag("Executions that may run at a time, unless overlap is allow.", metavar="N"),
        more="#overlap",
    ),
    JobField("concurrency_key", Form.SAME, more="#concurrency-key"),
    JobField("fail_fast", Form.SAME, more="flows.md#skips-and-failures"),
    JobField("pause_after_failures", Form.SAME, more="#circuit-breaker", has_default=True),
    JobField(
        "on_failure",
        flag=Flag(
            "Posts a webhook to this URL, or triggers this job, when an execution failed. "
            "Repeatable.",
            metavar="TARGET",
            is_repeatable=True,
        ),
        more="#hooks",
        has_default=True,
    ),
    JobField(
        "on_success",
        flag=Flag("The same when one succeeded.", metavar="TARGET", is_repeatable=True),
        more="#hooks",
        has_default=True,
    ),
    JobField(
        "on_recovery",
        flag=Flag(
            "The same when one succeeded after one that failed.",
            metavar="TARGET",
            is_repeatable=True,
        ),
        more="#hooks",
        has_default=True,
    ),
    JobField(
        "on_late",
        flag=Flag(
            "The same when one has not ended --late-after its fire time, or the fire time was "
            "missed.",
            metavar="TARGET",
            is_repeatable=True,
        ),
        more="#hooks",
        has_default=True,
    ),
    JobField(
        "late_after",
        Form.DURATION,
        Flag("Time for --on-late, such as 30m.", metavar="DURATION"),
        more="#hooks",
        has_default=True,
    ),
    JobField(
        "env",
        flag=Flag(
            "Environment variable of its processes; repeatable.",
            metavar="K=V",
            is_repeatable=True,
            is_of_work=True,
        ),
        has_default=True,
    ),
    JobField("secrets", more="secrets.md"),
    JobField("user", more="tasks.md#user"),
    JobField("identity", more="access.md#tokens-of-tasks"),
    JobField(
        "cwd",
        flag=Flag(
            "Working directory; a relative path begins in the current directory.",
            metavar="DIR",
            is_of_work=True,
        ),
        is_of_tasks=True,
    ),
    JobField("stdin", is_of_tasks=True),
    JobField(
        "labels",
        Form.PAIRS,
        Flag("Label; repeatable.", ("--label",), "K=V", is_repeatable=True, is_of_work=True),
        has_default=True,
    ),
)
"""All fields, in the order of the documentation."""

STORED = tuple(field for field in JOB_FIELDS if field.form is not Form.OWN)
"""The fields that are one field of `JobSpec`."""


def keys_of(fields: Iterable[JobField]) -> tuple[str, ...]:
    """Return the names of *fields* in JSON."""
    return tuple(field.key for field in fields)
