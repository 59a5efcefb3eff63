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
from rota.client.imports.python_calls import imported_function, known, known_list, known_object
from rota.client.imports.python_source import called_name, is_json
from rota.client.imports.templates import literal, literal_value, literal_work

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
_NOTHING = frozenset({"EmptyOperator", "DummyOperator"})
_OF_EVERY = frozenset(
    {"task_id", "dag", "retries", "retry_delay", "retry_exponential_backoff", "max_retry_delay"}
    | {"execution_timeout", "trigger_rule", "owner", "start_date", "doc_md", "task_group"}
)
_OF_BASH = frozenset({"bash_command", "env", "append_env", "cwd", "skip_on_exit_code"})
_OF_PYTHON = frozenset({"python_callable", "op_args", "op_kwargs"})
_OF_PARAMETERS = re.compile(r"\{\{-?\s*params(\.\w+)+\s*-?\}\}")
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
    if limit and located.fields.get("retry_exponential_backoff") is True:
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
    """Return the name of a task, whose arguments are *located*.

    Raises:
        InvalidFile: It is not written in the file, or another operator has it.
    """
    given = located.fields.get("task_id") or task.function
    if not isinstance(given, str) or not given:
        raise located.findings.invalid(located.line(), "the task has no task_id written as text")
    name = plain_name(f"{task.group}{given}")
    if name not in taken:
        return name
    if not task.function:
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
    return bool({"retries", "retry_delay", "execution_timeout"} & located.fields.keys())


def _retry_defaults(located: Located, defaults: Located) -> dict[str, object]:
    """Return the default arguments that the retries of a task with own ones have, too."""
    if not {"retries", "retry_delay"} & located.fields.keys():
        return {}
    keys = ("retries", "retry_delay", "retry_exponential_backoff", "max_retry_delay")
    return {key: defaults.fields[key] for key in keys if key in defaults.fields}


def _rule(located: Located) -> str:
    value = located.fields.get("trigger_rule")
    if value is None:
        return ""
    # TriggerRule.ALL_DONE is the same as "all_done".
    text = value if isinstance(value, str) else repr(value).rpartition(".")[2].lower()
    if text not in _RULES:
        raise located.invalid("trigger_rule", f"one of {', '.join(_RULES)}")
    return "" if text == "all_success" else _RULES[text]


def _work(task: AirflowTask, located: Located, imports: Mapping[str, str]) -> Definition:
    operator = called_name(task.call.func)
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
    text = known(located, "bash_command", str)
    if text is None:
        text = "echo 'the command is not written in the DAG file' >&2; exit 1"
    env = known_object(located, "env")
    fields: Definition = {
        "cwd": known(located, "cwd", str),
        "env": {key: str(value) for key, value in env.items()},
    }
    status = located.fields.get("skip_on_exit_code", SKIP_STATUS)
    statuses = cast("list[object]", status if isinstance(status, list) else [status])
    return {
        "command": ["bash", "-c", _template(located, text)],
        **literal_work(fields),
        "skipExitCodes": [each for each in statuses if isinstance(each, int) and each],
    }


def _template(located: Located, text: str) -> str:
    """Return a command; of the templates in it, those of parameters are the same in rota.

    With another one the command fails before it begins, because it would use the braces as text.
    """
    if "{{" not in _OF_PARAMETERS.sub("", text) and "{%" not in text:
        return text
    located.findings.lose(
        located.line("bash_command"),
        "a template of Airflow in bash_command; the command fails until then",
        "remove the first line, and write it as one of rota, such as {{ execution.fireTime }}",
    )
    return f"echo 'a template of Airflow is not imported' >&2; exit 1\n{literal(text)}"


def _python(located: Located, function: str) -> Definition:
    args, kwargs = known_list(located, "op_args"), known_object(located, "op_kwargs")
    located.findings.change(
        located.line("python_callable"),
        f"{function}: a worker of Airflow calls the function, with its context",
        "a node calls it with these arguments alone; name its interpreter and folders in python",
    )
    for key, value in (("op_args", args), ("op_kwargs", kwargs)):
        if not is_json(value):
            raise located.invalid(key, "written as JSON")
    return {
        "python": {
            "function": function,
            **({"args": literal_value(args)} if args else {}),
            **({"kwargs": literal_value(kwargs)} if kwargs else {}),
        }
    }
