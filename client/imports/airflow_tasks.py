"""Operators of Airflow as tasks."""

import re
from collections.abc import Collection, Mapping
from datetime import timedelta
from itertools import count
from typing import cast

from rota.client.definitions import Definition
from rota.client.imports.airflow_graph import AirflowTask
from rota.client.imports.job_names import plain_name
from rota.client.imports.located import Located
from rota.client.imports.python_calls import imported_function, known, known_object
from rota.client.imports.python_source import called_name, is_json, is_written
from rota.client.imports.templates import literal

RETRY_DELAY_S = 300.0
"""The delay of a retry that names none."""
MAX_RETRY_DELAY_S = 86_400.0
"""The longest delay of retries whose delays grow, if they name none."""
SKIP_STATUS = 99
"""The exit status with which a command of Bash skips its task."""

_SAME_RULES = (
    *("all_success", "all_failed", "all_done", "all_done_min_one_success", "one_success"),
    *("one_failed", "one_done", "none_failed", "none_failed_min_one_success", "none_skipped"),
    *("all_skipped", "always"),
)
_RULES = {
    **{each: each for each in _SAME_RULES},
    "dummy": "always",
    "none_failed_or_skipped": "none_failed_min_one_success",
}
_RETRIES = ("retries", "retry_delay", "retry_exponential_backoff", "max_retry_delay")
_NOTHING = frozenset({"EmptyOperator", "DummyOperator"})
_OF_EVERY = frozenset(
    {"task_id", "dag", "retries", "retry_delay", "retry_exponential_backoff", "max_retry_delay"}
    | {"execution_timeout", "trigger_rule", "owner", "doc_md"}
)
_OF_BASH = frozenset({"bash_command", "env", "append_env", "cwd", "skip_on_exit_code"})
_OF_PYTHON = frozenset({"python_callable", "op_args", "op_kwargs"})
_OF_PARAMETERS = re.compile(r"\{\{-?\s*params(\.\w+)+\s*-?\}\}")
_FIRST_LINE = "remove the first line of the command and write the value"
_REMEDIES = {
    "pool": "limit the tasks with labels of nodes and their setting slots",
    "queue": "give the nodes that have to run it a label, and select it with nodeSelector",
    "depends_on_past": "overlap: queue_all starts an execution after the one before",
    "on_failure_callback": "add onFailure with a webhook or a job",
    "priority_weight": "priority of the job is -100 to 100",
}
_OF_OPERATORS = (
    ("Branch", "write when in the tasks of the branches"),
    ("ShortCircuit", "write when in the tasks that follow"),
    ("Sensor", "repeat runs a command until its result fits; approval and sleep wait"),
    ("TriggerDagRun", "onSuccess of the job, or dependencies of the other one, start a job"),
    ("Docker", "container runs the command in an image"),
    ("Kubernetes", "container runs the command in an image"),
    ("Python", "move the function to a module without Airflow: python: module:function"),
)


def span_s(located: Located, key: str) -> float | None:
    """Return a timedelta, or a number, in seconds; None if there is none."""
    value = located.fields.get(key)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    span = known(located, key, timedelta)
    return None if span is None else span.total_seconds()


def attempts(located: Located) -> Definition:
    """Return the retries and the timeout among the arguments of a task, or the default ones."""
    limit, delay_s = known(located, "retries", int), span_s(located, "retry_delay")
    longest_s, timeout_s = span_s(located, "max_retry_delay"), span_s(located, "execution_timeout")
    delay_s = RETRY_DELAY_S if delay_s is None else delay_s
    found: Definition = {}
    if limit and known(located, "retry_exponential_backoff", bool):
        found["retries"] = {
            "limit": limit,
            "delay": delay_s,
            "maxDelay": longest_s or MAX_RETRY_DELAY_S,
        }
    elif limit is not None:
        found["retries"] = {"limit": limit, "backoff": "fixed", "delay": delay_s} if limit else 0
    if timeout_s:
        found["timeout"] = timeout_s
    return found


def name_in_dag(task: AirflowTask, located: Located, taken: Collection[str]) -> str:
    """Return the name of a task, whose arguments are *located*; with a note if it is not written.

    Raises:
        InvalidFile: There is none, or another operator has it.
    """
    given = located.fields.get("task_id") or task.function
    unpacked = any(key.startswith("**") for key in located.fields)
    is_known = is_written(given) and (given or not unpacked)
    if not is_known:
        located.findings.lose(
            located.line("task_id"),
            "the task_id is not written as text; the task is named task",
            "rename it",
        )
        given = "task"
    if not isinstance(given, str) or not given:
        raise located.findings.invalid(located.line(), "the task has no task_id written as text")
    name = plain_name(f"{task.group}{given}")
    if name not in taken:
        return name
    if not task.function and is_known:
        raise located.findings.invalid(located.line(), f"two tasks have the task_id {name}")
    # Further calls of a function with @task are numbered.
    return next(each for n in count(1) if (each := f"{name}__{n}") not in taken)


def task_of(
    task: AirflowTask,
    located: Located,
    imports: Mapping[str, str],
    names: Mapping[AirflowTask, str],
    defaults: Located,
) -> Definition:
    """Return the definition of a task.

    Args:
        task: The task.
        located: The arguments of its operator.
        imports: What the file imports, as of `imports_of`.
        names: The names of the tasks of its DAG.
        defaults: The default arguments of the DAG.

    Raises:
        InvalidFile: An argument is not valid.
    """
    fields = {**_retry_defaults(located, defaults), **located.fields}
    merged = Located(located.findings, fields, (), located.lines)
    definition: Definition = {
        "name": names[task],
        "needs": [names[each] for each in task.needs if each in names],
        "triggerRule": _rule(located if "trigger_rule" in located.fields else defaults),
        **_work(task, located, imports),
        **(attempts(merged) if _has_attempts(located) else {}),
    }
    return {key: value for key, value in definition.items() if value or value == 0}


def _has_attempts(located: Located) -> bool:
    return bool({*_RETRIES, "execution_timeout"} & located.fields.keys())


def _retry_defaults(located: Located, defaults: Located) -> dict[str, object]:
    """Return the default arguments that the retries of a task with own ones have, too."""
    if not {*_RETRIES} & located.fields.keys():
        return {}
    return {key: defaults.fields[key] for key in _RETRIES if key in defaults.fields}


def _rule(located: Located) -> str:
    value = located.fields.get("trigger_rule")
    if value is None:
        return ""
    # TriggerRule.ALL_DONE is the same as "all_done".
    text = value if isinstance(value, str) else repr(value).rpartition(".")[2].lower()
    if text not in _RULES and not is_written(value):
        located.findings.lose(
            located.line("trigger_rule"),
            f"trigger_rule is {value!r}, which is not written in the file",
            "write triggerRule in the task",
        )
        return ""
    if text not in _RULES:
        raise located.invalid("trigger_rule", f"one of {', '.join(_RULES)}")
    return "" if text == "all_success" else _RULES[text]


def _work(task: AirflowTask, located: Located, imports: Mapping[str, str]) -> Definition:
    operator = task.function or called_name(task.call.func)
    if operator == "BashOperator":
        located.lose_others(_OF_EVERY | _OF_BASH, _REMEDIES)
        return _bash(located)
    if operator in _NOTHING:
        located.lose_others(_OF_EVERY, _REMEDIES)
        return {"command": ["true"]}
    given = {each.arg: each.value for each in task.call.keywords}
    if operator == "PythonOperator" and (
        function := imported_function(given.get("python_callable"), imports)
    ):
        located.lose_others(_OF_EVERY | _OF_PYTHON, _REMEDIES)
        return _python(located, function)
    if task.function:
        located.lose_others(_OF_EVERY, _REMEDIES)
    else:
        # Its other arguments are a part of the work.
        located.lose_others(located.fields.keys() - _REMEDIES.keys(), _REMEDIES)
    return _lost(task, located, operator)


def _lost(task: AirflowTask, located: Located, operator: str) -> Definition:
    """Return a command that fails, so that no task runs that needs the work of this one."""
    what = f"the function {task.function} with @task" if task.function else operator
    kind = "Python" if task.function else operator
    remedy = next((text for part, text in _OF_OPERATORS if part in kind), "write its command")
    located.findings.lose(
        located.line(), f"{what}: the work of the task; its command fails until then", remedy
    )
    return {"command": f"echo 'the work of this task is not imported: {operator}' >&2; exit 1"}


def _bash(located: Located) -> Definition:
    text, cwd = known(located, "bash_command", str), known(located, "cwd", str)
    env, is_whole = _environment(located)
    if text is not None and text.endswith((".sh", ".bash")):
        located.findings.lose(
            located.line("bash_command"),
            f"bash_command={text}: Airflow reads this file, and fills the templates in it",
            "write its content, or a path that the nodes have",
        )
    for key, value, is_foreign in (
        ("bash_command", text, text is not None and _is_foreign(text)),
        ("cwd", cwd, cwd is not None and ("{{" in cwd or "{%" in cwd)),
    ):
        if is_foreign:
            _lose_template(located, located.line(key), key, _FIRST_LINE)
        is_whole &= not is_foreign and (value is not None or located.fields.get(key) is None)
    command = _literal_if_foreign(text or "")
    if not is_whole:
        # Its work would be another one without these values.
        command = f"echo 'values of Airflow are not imported' >&2; exit 1\n{command}".rstrip()
    return {
        "command": ["bash", "-c", command],
        "cwd": cwd,
        "env": env,
        "skipExitCodes": _skip_statuses(located),
    }


def _skip_statuses(located: Located) -> list[int]:
    status = located.fields.get("skip_on_exit_code", SKIP_STATUS)
    if not is_written(status):
        located.findings.lose(
            located.line("skip_on_exit_code"),
            f"skip_on_exit_code is {status!r}, which is not written in the file",
            "write skipExitCodes in the task",
        )
    statuses = cast("list[object]", status if isinstance(status, list) else [status])
    return [each for each in statuses if isinstance(each, int) and each]


def _environment(located: Located) -> tuple[dict[str, str], bool]:
    """Return the variables of a command, and whether all of them are carried over."""
    env = known_object(located, "env")
    is_whole = bool(env) or is_written(located.fields.get("env"))
    found: dict[str, str] = {}
    for name, value in env.items():
        line, text = located.within("env").line(name), str(value)
        if not is_written(value):
            located.findings.lose(
                line,
                f"{name} in env is {text}, which is not written in the file; the command fails "
                "until then",
                _FIRST_LINE,
            )
            is_whole = False
            continue
        if _is_foreign(text):
            _lose_template(located, line, f"{name} in env", _FIRST_LINE)
            is_whole = False
        found[name] = _literal_if_foreign(text)
    return found, is_whole


def _is_foreign(value: object) -> bool:
    """Return True if a template of Airflow in *value* is none of rota: those of parameters are."""
    if isinstance(value, list):
        return any(map(_is_foreign, cast("list[object]", value)))
    if isinstance(value, dict):
        return any(map(_is_foreign, cast("dict[str, object]", value).values()))
    return isinstance(value, str) and ("{{" in _OF_PARAMETERS.sub("", value) or "{%" in value)


def _literal_if_foreign(text: str) -> str:
    return literal(text) if _is_foreign(text) else text


def _lose_template(located: Located, line: int, where: str, remedy: str) -> None:
    located.findings.lose(
        line,
        f"a template of Airflow in {where}; the command fails until then",
        f"{remedy}, with a template such as {{{{ execution.fireTime }}}} or "
        "{{ execution.intervalStart }}",
    )


def _python(located: Located, function: str) -> Definition:
    located.findings.change(
        located.line("python_callable"),
        f"{function}: a worker of Airflow calls the function, with its context",
        "a node calls it with these arguments alone; name its interpreter and folders in python",
    )
    call: Definition = {"function": function}
    is_whole = True
    for key, name, kind in (("op_args", "args", list), ("op_kwargs", "kwargs", dict)):
        value = located.fields.get(key)
        if not is_written(value):
            located.findings.lose(
                located.line(key),
                f"{key} is {value!r}, which is not written in the file; the task fails until then",
                f"write {name} in python: {function}",
            )
        elif _is_foreign(value):
            remedy = f"write the call of {function} in python"
            _lose_template(located, located.line(key), key, remedy)
        elif value and not (is_json(value) and isinstance(value, kind)):
            raise located.invalid(key, "written as JSON")
        else:
            call |= {name: value} if value else {}
            continue
        is_whole = False
    if is_whole:
        return {"python": call}
    return {
        "command": f"echo 'the arguments of this task are not imported: {function}' >&2; exit 1"
    }
