"""Drawings of a graph of tasks: as lines of text, and as a flowchart of Mermaid."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from rota.client.cli.human import absolute, counted
from rota.wire.documents import RepeatBody, SleepBody, StepsView, TaskSpecView, TaskView

WIDTH = 80
"""The most columns of a line of text."""
NAME_MAX = 32
"""The most columns of a name with its indentation."""
KIND_MAX = 14
WHEN_MAX = 30
REASON_MAX = 48
LEVELS_MAX = 8
"""The most levels of indentation; deeper tasks are indented as much as those of this level."""
NEEDS_MAX = 3
"""The most tasks of one ``needs`` that are named in a line of text."""
COMMANDS = ("process", "user")
"""The types of tasks whose work is a command."""
LOOPS = ("foreach", "repeat")
ALL_SUCCESS = "all_success"
NO_STATES: Mapping[str, TaskView] = MappingProxyType({})

_SHAPES = {
    "foreach": ("[[", "]]"),
    "repeat": ("[[", "]]"),
    "sleep": ("([", "])"),
    "approval": ("{{", "}}"),
    "switch": ("{", "}"),
    "job": ("[/", "/]"),
}
"""The brackets of a node of Mermaid by the kind of the task; other kinds have ``[`` and ``]``."""

_COLOURS = {
    "success": "fill:#d3f5dc,stroke:#1a7f37,color:#0b3d1a",
    "failed": "fill:#ffdcd9,stroke:#c4291c,color:#5c0f08",
    "running": "fill:#d6ebff,stroke:#0969da,color:#052b57",
    "waiting": "fill:#e8defc,stroke:#7a45d1,color:#33165f",
    "backing_off": "fill:#fff1c2,stroke:#9a6700,color:#493100",
    "skipped": "fill:#f3f3f3,stroke:#8a8a8a,color:#444444,stroke-dasharray:4 3",
    "cancelled": "fill:#e4e4e4,stroke:#6a6a6a,color:#333333",
    "ready": "fill:#ffffff,stroke:#6a6a6a,color:#333333",
    "blocked": "fill:#ffffff,stroke:#b5b5b5,color:#555555",
}
"""The style of a node of Mermaid by the status of the task."""

_ESCAPES = str.maketrans(
    {
        "#": "#35;",
        "&": "#38;",
        '"': "#quot;",
        "<": "#lt;",
        ">": "#gt;",
        "`": "#96;",
        "\\": "#92;",
        "\n": " ",
        "\r": " ",
    }
)


def kind_of(task: TaskSpecView) -> str:
    """Return what a task is: its loop, its wait, ``command``, or the type of its work."""
    loop = next((kind for kind in LOOPS if getattr(task, kind) is not None), None)
    return loop or _kind_of_step(task)


def _kind_of_step(task: TaskSpecView) -> str:
    """Return what a task is, or each step of its loop."""
    for kind in ("sleep", "approval", "switch", "run_job"):
        if getattr(task, kind) is not None:
            return "job" if kind == "run_job" else kind
    return "command" if task.type in COMMANDS else task.type


def in_order(tasks: Sequence[TaskSpecView]) -> list[tuple[int, TaskSpecView]]:
    """Return each task with its level, after all tasks that it needs and close to one of them.

    The level is the length of the longest path to the task. The tasks must have no cycle.
    """
    by_name = {task.name: task for task in tasks}
    needed_by: dict[str, list[str]] = {}
    for task in tasks:
        for needed in task.needs:
            needed_by.setdefault(needed, []).append(task.name)
    open_needs = {task.name: len(task.needs) for task in tasks}
    levels = dict.fromkeys(by_name, 0)
    # Without recursion: a job may be a chain of thousands of tasks.
    stack = [task.name for task in reversed(tasks) if not task.needs]
    found: list[tuple[int, TaskSpecView]] = []
    while stack:
        name = stack.pop()
        found.append((levels[name], by_name[name]))
        for other in reversed(needed_by.get(name, ())):
            levels[other] = max(levels[other], levels[name] + 1)
            open_needs[other] -= 1
            if not open_needs[other]:
                stack.append(other)
    return found


def text_lines(
    tasks: Sequence[TaskSpecView], states: Mapping[str, TaskView] = NO_STATES
) -> list[str]:
    """Return one line for each task, of at most `WIDTH` columns.

    Args:
        tasks: The tasks as defined.
        states: The tasks of an execution by name; empty for a job.
    """
    rows = [_row(level, task, states.get(task.name)) for level, task in in_order(tasks)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    # A job has no states: a column without text is left out.
    shown = [number for number, width in enumerate(widths) if width]
    return [
        shortened(
            "  ".join([*(f"{row[number]:{widths[number]}}" for number in shown), row[-1]]), WIDTH
        ).rstrip()
        for row in rows
    ]


def mermaid_lines(
    tasks: Sequence[TaskSpecView], states: Mapping[str, TaskView] = NO_STATES
) -> list[str]:
    """Return the lines of a flowchart of Mermaid; *tasks* and *states* as for `text_lines`.

    Nodes have numbers, because some names, such as ``end``, are words of Mermaid.
    """
    ordered = [task for _, task in in_order(tasks)]
    ids = {task.name: f"t{number}" for number, task in enumerate(ordered)}
    used = {states[task.name].status for task in ordered if task.name in states}
    return [
        "flowchart TD",
        *(f"  {_node(ids[task.name], task, states.get(task.name))}" for task in ordered),
        *(
            f"  {ids[needed]} {_arrow(task.trigger_rule)} {ids[task.name]}"
            for task in ordered
            for needed in task.needs
        ),
        *(f"  classDef {status} {style}" for status, style in _COLOURS.items() if status in used),
    ]


def steps_text(task: TaskSpecView, steps: StepsView) -> str:
    """Return the counts of the steps of a loop: ``12 of 100 done, 1 failed``."""
    ended = steps.begun - steps.open
    if isinstance(task.repeat, RepeatBody):
        texts = [f"{counted(ended, 'round', 'rounds')} done, at most {steps.total}"]
    else:
        texts = [f"{ended} of {steps.total} done"]
    counts = {"failed": steps.failed, "skipped": steps.skipped, "open": steps.open}
    return ", ".join([*texts, *(f"{count} {word}" for word, count in counts.items() if count)])


def shortened(text: str, length: int) -> str:
    """Return *text* in at most *length* characters; ``...`` marks what is left out."""
    return text if len(text) <= length else f"{text[: length - 3].rstrip()}..."


def _row(level: int, task: TaskSpecView, state: TaskView | None) -> tuple[str, ...]:
    indented = f"{'  ' * min(level, LEVELS_MAX)}{task.name}"
    about = [
        "teardown" if task.teardown else "",
        _progress(task, state) if state else _definition(task),
        _of_each(task),
        "" if task.trigger_rule == ALL_SUCCESS else task.trigger_rule,
        f"when {_one_line(task.when, WHEN_MAX)}" if task.when else "",
        f"needs {_named(task.needs)}" if task.needs else "",
    ]
    return (
        shortened(indented, NAME_MAX),
        shortened(kind_of(task), KIND_MAX),
        state.status if state else "",
        "; ".join(filter(None, about)),
    )


def _definition(task: TaskSpecView) -> str:
    """Return the text about a loop or a sleep that no execution has begun."""
    if task.foreach is not None:
        items = task.foreach.items
        if task.foreach.matrix is not None:
            return f"of each {' and '.join(task.foreach.matrix)}"
        if isinstance(items, str):
            return f"of {_one_line(items, WHEN_MAX)}"
        items = items or []
        return f"of {counted(len(items), 'item', 'items')}"
    if task.repeat is not None:
        return f"until {_one_line(task.repeat.until, WHEN_MAX)}"
    if isinstance(task.sleep, SleepBody):
        return f"until {_one_line(task.sleep.until, WHEN_MAX)}"
    if task.switch is not None:
        return f"of {counted(len(task.switch), 'case', 'cases')}"
    if task.run_job is not None:
        return task.run_job.job
    return task.sleep or ""


def _of_each(task: TaskSpecView) -> str:
    """Return what each step of a loop is, unless it is a command; empty for other tasks."""
    kind = _kind_of_step(task)
    if kind_of(task) == kind or kind == "command":
        return ""
    return f"each {kind}{f' {task.run_job.job}' if task.run_job else ''}"


def _progress(task: TaskSpecView, state: TaskView) -> str:
    """Return the counts of a loop, or what a waiting task waits for."""
    if state.steps is not None:
        return steps_text(task, state.steps)
    if state.status != "waiting":
        return ""
    if task.sleep is not None and state.retry_at is not None:
        return f"until {absolute(state.retry_at)}"
    return _one_line(state.reason, REASON_MAX)


def _named(needs: Sequence[str]) -> str:
    if len(needs) <= NEEDS_MAX:
        return ", ".join(needs)
    return f"{', '.join(needs[: NEEDS_MAX - 1])} and {len(needs) - NEEDS_MAX + 1} more"


def _node(number: str, task: TaskSpecView, state: TaskView | None) -> str:
    begin, end = _SHAPES.get(kind_of(task), ("[", "]"))
    about = _progress(task, state) if state else _definition(task)
    lines = [
        task.name,
        ": ".join(filter(None, (kind_of(task), about))),
        _of_each(task),
        f"when {_one_line(task.when, WHEN_MAX)}" if task.when else "",
    ]
    label = "<br/>".join(line.translate(_ESCAPES) for line in lines if line)
    return f'{number}{begin}"{label}"{end}{f":::{state.status}" if state else ""}'


def _arrow(rule: str) -> str:
    return "-->" if rule == ALL_SUCCESS else f"-->|{rule}|"


def _one_line(text: str, length: int) -> str:
    return shortened(" ".join(text.split()), length)
