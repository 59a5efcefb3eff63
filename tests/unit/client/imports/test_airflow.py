"""DAG files of Airflow as definitions of jobs."""

from pathlib import Path

import pytest

from rota.client.definitions import Definition, InvalidFile
from rota.client.imports.imported import Imported
from unit.client.imports.accepted import import_text, notes_of, only_job

ETL = """\
from datetime import datetime, timedelta
import pendulum
from airflow import DAG
from airflow.operators.bash import BashOperator
from airflow.operators.empty import EmptyOperator
from airflow.operators.python import PythonOperator
from shop.loads import load_orders

with DAG(
    "etl",
    description="Orders",
    schedule="0 6 * * 1-5",
    start_date=pendulum.datetime(2024, 1, 1, tz="Europe/Berlin"),
    catchup=False,
    max_active_runs=1,
    dagrun_timeout=timedelta(hours=2),
    default_args={"owner": "sales", "retries": 2, "retry_delay": timedelta(minutes=1)},
    tags=["a", "b"],
    params={"day": "today"},
) as dag:
    extract = BashOperator(task_id="extract", bash_command="extract {{ params.day }}")
    load = PythonOperator(task_id="load", python_callable=load_orders, op_kwargs={"size": 3})
    done = EmptyOperator(task_id="done", trigger_rule="all_done")
    extract >> load >> done

raise SystemExit("the file was executed")
"""
HEAD = "dag = DAG('d', schedule='@daily', catchup=False)\n"


def import_dag(arguments: str, *, tasks: str = "EmptyOperator(task_id='t', dag=dag)") -> Imported:
    """Return the import of a DAG with these arguments in line 2, and tasks from line 3."""
    return import_text("airflow", f"dag = DAG('d', catchup=False,\n{arguments})\n{tasks}\n")


def needs_in(statements: str, names: str = "abcd") -> dict[str, list[str]]:
    """Return the needs of the tasks of a DAG with these names, after these statements."""
    tasks = "".join(
        f"{name} = BashOperator(task_id='{name}', bash_command='x')\n" for name in names
    )
    job = only_job(import_text("airflow", f"{HEAD}{tasks}{statements}\n"))
    return {task["name"]: task["needs"] for task in job["tasks"] if "needs" in task}


def task_with(arguments: str, operator: str = "BashOperator") -> tuple[Definition, Imported]:
    """Return a task with these arguments, which are in line 3, and its import."""
    result = import_text("airflow", f"{HEAD}{operator}(task_id='t',\n{arguments})\n")
    return only_job(result)["tasks"][0], result


def test_a_dag_is_carried_over_and_not_executed() -> None:
    result = import_text("airflow", ETL)

    assert only_job(result) == {
        "name": "etl",
        "description": "Orders",
        "schedules": [{"schedule": "0 6 * * 1-5", "startAt": "2024-01-01T00:00:00"}],
        "timezone": "Europe/Berlin",
        "labels": {"owner": "sales", "tags": "a,b"},
        "parameters": {"day": "today"},
        "retries": {"limit": 2, "backoff": "fixed", "delay": 60.0},
        "overlap": "queue_all",
        "executionTimeout": 7200.0,
        "tasks": [
            {
                "name": "extract",
                "command": ["bash", "-c", "extract {{ params.day }}"],
                "skipExitCodes": [99],
            },
            {
                "name": "load",
                "needs": ["extract"],
                "python": {"function": "shop.loads:load_orders", "kwargs": {"size": 3}},
            },
            {"name": "done", "needs": ["load"], "triggerRule": "all_done", "command": ["true"]},
        ],
    }
    assert notes_of(result) == [(22, "changed", "shop.loads:load_orders:")]
    assert result.jobs[0].line == 9
    assert result.jobs[0].next[0] == "2027-01-01T06:00:00+01:00"


@pytest.mark.parametrize(
    ("arguments", "limits"),
    [
        ("start_date=datetime(2024, 1, 2, 3)", {"startAt": "2024-01-02T03:00:00"}),
        ("start_date='2024-01-02'", {"startAt": "2024-01-02T00:00:00"}),
        ("default_args={'start_date': datetime(2024, 1, 2)}", {"startAt": "2024-01-02T00:00:00"}),
        ("start_date=datetime(2024, 1, 2, tzinfo=timezone.utc)",
         {"startAt": "2024-01-02T00:00:00"}),
        ("start_date=pendulum.datetime(2024, 7, 1, tz='Europe/Berlin'), end_date='2030-07-01'",
         {"startAt": "2024-07-01T00:00:00", "endAt": "2030-07-01T00:00:00Z"}),
        ("end_date=datetime(year=2030, month=1, day=2)", {"endAt": "2030-01-02T00:00:00"}),
    ],
)  # fmt: skip
def test_dates_are_limits_of_the_schedule(arguments: str, limits: dict[str, str]) -> None:
    result = import_dag(f"schedule='@daily', {arguments}")

    assert only_job(result)["schedules"] == [{"schedule": "@daily", **limits}]
    assert [effect for _, effect, _ in notes_of(result)] == ["changed"] * ("endAt" in limits)


@pytest.mark.parametrize("value", ["days_ago(2)", "START", "datetime(2024, 13, 1)", "'soon'"])
def test_a_date_that_is_not_written_is_lost_with_its_line(value: str) -> None:
    result = import_dag(f"schedule='@daily', end_date={value}")

    assert only_job(result)["schedule"] == "@daily"
    assert [(line, effect) for line, effect, _ in notes_of(result)] == [(2, "lost")]


def test_fire_times_of_an_import_end_with_the_dag() -> None:
    result = import_dag("schedule='@yearly', end_date=datetime(2028, 6, 1)")

    assert [each[:10] for each in result.jobs[0].next] == ["2028-01-01"]


def test_a_file_that_would_write_a_file_writes_none(tmp_path: Path) -> None:
    target = tmp_path / "written"

    import_text("airflow", f"open({str(target)!r}, 'w')\n{HEAD}EmptyOperator(task_id='t')\n")

    assert not target.exists()


@pytest.mark.parametrize(
    ("arguments", "schedule"),
    [
        ("schedule='@hourly'", "@hourly"),
        ("schedule='@quarterly'", "0 0 1 */3 *"),
        ("schedule_interval='0 0 */10 * MON'", "0 0 1-31/10 * MON"),
        ("schedule='1 2 * * * 30'", "30 1 2 * * *"),
        ("schedule=timedelta(hours=1)", "@every 3600s"),
        ("schedule=None", None),
        ("timetable=CronTriggerTimetable('0 1 * * *', timezone='UTC')", "0 1 * * *"),
    ],
)
def test_schedules_have_the_meaning_that_they_have_there(
    arguments: str, schedule: str | None
) -> None:
    result = import_dag(arguments)

    assert only_job(result).get("schedule") == schedule
    assert all(effect == "changed" for _, effect, _ in notes_of(result))


@pytest.mark.parametrize("value", ["[Dataset('x')]", "'@once'", "MyTimetable()", "CRON"])
def test_other_schedules_are_lost_with_their_line(value: str) -> None:
    result = import_dag(f"schedule={value}")

    assert "schedule" not in only_job(result)
    assert [(line, effect) for line, effect, _ in notes_of(result)] == [(2, "lost")]


def test_catchup_is_lost_and_later_fire_times_all_fire() -> None:
    result = import_text(
        "airflow",
        "dag = DAG('d', schedule='@daily', start_date=datetime(2020, 1, 1),\ncatchup=True)\n"
        "EmptyOperator(task_id='t')\n",
    )

    assert only_job(result)["misfire"] == "all"
    assert notes_of(result) == [(2, "lost", "catchup:")]


def test_a_paused_dag_has_no_schedule() -> None:
    result = import_dag("schedule='@daily', is_paused_upon_creation=True")

    assert "schedule" not in only_job(result)
    assert notes_of(result) == [(2, "lost", "is_paused_upon_creation:")]


@pytest.mark.parametrize(
    ("statements", "needs"),
    [
        ("a >> b >> c", {"b": ["a"], "c": ["b"]}),
        ("a << b", {"a": ["b"]}),
        ("a >> [b, c] >> d", {"b": ["a"], "c": ["a"], "d": ["b", "c"]}),
        ("a.set_downstream([b, c])", {"b": ["a"], "c": ["a"]}),
        ("a.set_upstream(b)", {"a": ["b"]}),
        ("chain(a, [b, c], d)", {"b": ["a"], "c": ["a"], "d": ["b", "c"]}),
        ("chain([a, b], [c, d])", {"c": ["a"], "d": ["b"]}),
        ("cross_downstream([a, b], [c, d])", {"c": ["a", "b"], "d": ["a", "b"]}),
        ("a >> Label('ok') >> b", {"b": ["a"]}),
        ("both = [a, b]\nboth >> c\na >> c", {"c": ["a", "b"]}),
    ],
)
def test_orders_are_needs(statements: str, needs: dict[str, list[str]]) -> None:
    assert needs_in(statements) == needs


def test_the_tasks_of_a_group_have_its_name() -> None:
    result = import_text(
        "airflow",
        "with DAG('d', schedule=None):\n"
        "    first = EmptyOperator(task_id='first')\n"
        "    with TaskGroup('g') as group:\n"
        "        EmptyOperator(task_id='x')\n"
        "        EmptyOperator(task_id='y')\n"
        "    first >> group\n",
    )

    tasks = only_job(result)["tasks"]
    assert [(task["name"], task.get("needs")) for task in tasks] == [
        ("first", None),
        ("g.x", ["first"]),
        ("g.y", ["first"]),
    ]


def test_several_dags_have_their_own_tasks() -> None:
    result = import_text(
        "airflow",
        "one = DAG('one', schedule=None)\ntwo = DAG('two', schedule=None)\n"
        "EmptyOperator(task_id='a', dag=two)\nEmptyOperator(task_id='b', dag=one)\n",
    )

    found = {job.definition["name"]: job.definition["tasks"] for job in result.jobs}
    assert [task["name"] for task in found["one"]] == ["b"]
    assert [task["name"] for task in found["two"]] == ["a"]


def test_functions_with_decorators_are_tasks_whose_work_is_lost() -> None:
    result = import_text(
        "airflow",
        "@dag(schedule='@daily', catchup=False)\n"
        "def etl():\n"
        "    @task\n"
        "    def extract():\n"
        "        return 1\n"
        "    @task(retries=2)\n"
        "    def load(rows):\n"
        "        pass\n"
        "    load(extract())\n"
        "    extract()\n"
        "etl()\n",
    )

    job = only_job(result)
    assert job["name"] == "etl"
    assert [(task["name"], task.get("needs")) for task in job["tasks"]] == [
        ("extract", None),
        ("load", ["extract"]),
        ("extract__1", None),
    ]
    assert notes_of(result) == [(9, "lost", "the"), (9, "lost", "the"), (10, "lost", "the")]
    # Without the work of a task, those that need it must not run.
    assert all(task["command"].endswith("exit 1") for task in job["tasks"])


@pytest.mark.parametrize(
    ("operator", "arguments", "remedy"),
    [
        ("PythonOperator", "python_callable=load", "python: module:function"),
        ("BranchPythonOperator", "python_callable=load", "when"),
        ("S3KeySensor", "bucket_key='x'", "repeat"),
        ("PostgresOperator", "sql='x'", "command"),
    ],
)
def test_other_operators_are_tasks_that_fail(operator: str, arguments: str, remedy: str) -> None:
    task, result = task_with(arguments, operator)

    assert task["command"].endswith("exit 1")
    assert notes_of(result)[0] == (2, "lost", f"{operator}:")
    assert remedy in result.report[0].remedy


def test_a_function_of_an_imported_module_is_called() -> None:
    result = import_text(
        "airflow",
        f"import shop.loads as loads\n{HEAD}PythonOperator(task_id='t',\n"
        "python_callable=loads.orders, op_args=['{{ params.day }}', 'x'])\n",
    )

    assert only_job(result)["tasks"][0]["python"] == {
        "function": "shop.loads:orders",
        "args": ["{{ params.day }}", "x"],
    }


def test_retries_of_a_task_replace_those_of_the_dag() -> None:
    result = import_dag(
        "schedule=None, default_args={'retries': 1, 'retry_delay': timedelta(seconds=5)}",
        tasks="BashOperator(task_id='a', bash_command='x', retries=3)\n"
        "BashOperator(task_id='b', bash_command='x', retries=0)\n"
        "BashOperator(task_id='c', bash_command='x', execution_timeout=timedelta(minutes=1))\n"
        "BashOperator(task_id='d', bash_command='x', retries=2, retry_delay=timedelta(hours=1),\n"
        "    retry_exponential_backoff=True)\n",
    )

    job = only_job(result)
    first, second, third, fourth = job["tasks"]
    assert job["retries"] == {"limit": 1, "backoff": "fixed", "delay": 5.0}
    assert first["retries"] == {"limit": 3, "backoff": "fixed", "delay": 5.0}
    assert second["retries"] == 0
    assert (third.get("retries"), third["timeout"]) == (None, 60.0)
    assert fourth["retries"] == {"limit": 2, "delay": 3600.0, "maxDelay": 86400.0}


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("'all_success'", None),
        ("'none_failed_or_skipped'", "none_failed_min_one_success"),
        ("TriggerRule.ONE_FAILED", "one_failed"),
    ],
)
def test_trigger_rules_are_the_same(rule: str, expected: str | None) -> None:
    task, _ = task_with(f"bash_command='x', trigger_rule={rule}")

    assert task.get("triggerRule") == expected


@pytest.mark.parametrize("command", ["echo {{ ds }}", "{% if x %}y{% endif %}"])
def test_a_template_of_airflow_is_lost(command: str) -> None:
    task, result = task_with(f"bash_command={command!r}")

    first, rest = task["command"][2].split("\n")
    # The command must not run with the braces as text.
    assert first.endswith("exit 1")
    assert rest == f"{{% raw %}}{command}{{% endraw %}}"
    assert notes_of(result) == [(3, "lost", "a")]


@pytest.mark.parametrize(
    "statements",
    [
        "for x in 'ab':\n    EmptyOperator(task_id=x)",
        "def make():\n    return DAG('other')",
        "if PRODUCTION:\n    t >> t2",
        "BashOperator.partial(task_id='m').expand(bash_command=['a'])",
    ],
)
def test_what_only_the_execution_knows_is_lost_with_its_line(statements: str) -> None:
    tasks = "t = EmptyOperator(task_id='t')\nt2 = EmptyOperator(task_id='t2')\n"

    result = import_text("airflow", f"{HEAD}{tasks}{statements}\n")

    assert [task["name"] for task in only_job(result)["tasks"]] == ["t", "t2"]
    line = 4 + statements.count("\n")
    assert [(found, effect) for found, effect, _ in notes_of(result)] == [(line, "lost")]


def test_arguments_without_an_equal_are_lost_with_their_line() -> None:
    _, result = task_with("bash_command='x', pool='p',\nenv={'A': 1}, on_failure_callback=f")

    assert notes_of(result) == [(3, "lost", "pool"), (4, "lost", "on_failure_callback")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("with DAG(", "file:1: the file is no Python"),
        ("x = 1", "file:1: there is no DAG"),
        ("dag = DAG()\nEmptyOperator(task_id='t')", "file:1: the DAG has no dag_id"),
        ("dag = DAG('d',\nschedule='61 * * * *')\nEmptyOperator(task_id='t')", "file:2: .*61"),
        ("dag = DAG('d',\nschedule=5)\nEmptyOperator(task_id='t')", "file:2: schedule is 5"),
        (f"{HEAD}EmptyOperator(\ntask_id=1)", "file:2: the task has no task_id"),
        (f"{HEAD}EmptyOperator(task_id='t')\nEmptyOperator(task_id='t')", "file:3: two tasks"),
        (f"{HEAD}EmptyOperator(task_id='t',\ntrigger_rule='never')", "file:3: trigger_rule"),
        (f"{HEAD}BashOperator(task_id='t',\nbash_command=1)", "file:3: bash_command is 1"),
        (f"{HEAD}BashOperator(task_id='t', bash_command='x',\nretries='2')", "file:3: retries"),
    ],
)
def test_an_invalid_file_is_named_with_its_line(text: str, message: str) -> None:
    with pytest.raises(InvalidFile, match=message):
        import_text("airflow", text)


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        ("max_active_runs=1", {"overlap": "queue_all"}),
        ("max_active_runs=3", {"overlap": "queue_all", "maxParallel": 3}),
        ("max_consecutive_failed_dag_runs=5", {"pauseAfterFailures": 5}),
    ],
)
def test_limits_of_runs_are_those_of_executions(
    arguments: str, fields: dict[str, str | int]
) -> None:
    job = only_job(import_dag(arguments))

    assert {name: job[name] for name in fields} == fields
    assert ("maxParallel" in job) == ("maxParallel" in fields)


def lost_in(result: Imported) -> list[int]:
    """Return the lines of what is lost."""
    return [line for line, effect, _ in notes_of(result) if effect == "lost"]


@pytest.mark.parametrize("name", ["", " as d2"])
@pytest.mark.parametrize("other", ["", " as d3"])
def test_tasks_are_in_the_dag_around_them(name: str, other: str) -> None:
    result = import_text(
        "airflow",
        f"with DAG('x2', schedule='0 4 * * *'){name}:\n    EmptyOperator(task_id='z')\n"
        f"with DAG('x3', schedule='0 5 * * *'){other}:\n    EmptyOperator(task_id='h')\n",
    )

    found = {job.definition["name"]: job.definition["tasks"] for job in result.jobs}
    assert {dag: [task["name"] for task in tasks] for dag, tasks in found.items()} == {
        "x2": ["z"],
        "x3": ["h"],
    }


@pytest.mark.parametrize(
    "statements",
    ["EmptyOperator(task_id='t', dag=other())", "with make():\n EmptyOperator(task_id='t')"],
)
def test_a_task_of_a_dag_that_is_not_written_is_in_no_other_one(statements: str) -> None:
    result = import_text("airflow", f"{HEAD}EmptyOperator(task_id='own')\n{statements}")

    assert [task["name"] for task in only_job(result)["tasks"]] == ["own"]
    assert lost_in(result) == [3 + statements.count("\n")]


@pytest.mark.parametrize(
    "statement",
    ["a >> TASKS", "chain(a, *TASKS)", "chain_linear(a, b)", "a.set_downstream(TASKS)"],
)
def test_an_order_of_tasks_that_is_not_written_is_lost(statement: str) -> None:
    tasks = "a = EmptyOperator(task_id='a')\nb = EmptyOperator(task_id='b')\n"

    result = import_text("airflow", f"{HEAD}{tasks}{statement}")

    assert lost_in(result) == [4]


@pytest.mark.parametrize(
    ("arguments", "env"),
    [
        ("env={'D': '{{ params.day }}', 'E': 'x'}", {"D": "{{ params.day }}", "E": "x"}),
        ("env={'D': '{{ ds }}'}", {"D": "{% raw %}{{ ds }}{% endraw %}"}),
        ("env={'D': os.environ.get('X', '')}", None),
        ("env={'D': f'{x}', 'E': 'x'}", {"E": "x"}),
        ("env=ENV", None),
        ("cwd='/srv/{{ ds }}'", None),
        ("cwd=FOLDER", None),
        ("bash_command=COMMAND", None),
    ],
)
def test_a_command_without_its_values_fails(arguments: str, env: dict[str, str] | None) -> None:
    command = "" if "bash_command" in arguments else "bash_command='run', "
    task, result = task_with(command + arguments)

    is_whole = arguments.startswith("env={'D': '{{ params")
    assert task.get("env") == env
    assert ("exit 1" in task["command"][2]) == (not is_whole)
    assert lost_in(result) == ([] if is_whole else [3])


@pytest.mark.parametrize(
    "arguments",
    [
        "op_kwargs={'day': '{{ ds }}'}",
        "op_args=[['{{ ds }}']]",
        "op_kwargs={'day': DAY}",
        "op_args=ARGS",
        "op_kwargs={DAY: 1}",
    ],
)
def test_a_function_without_its_arguments_is_not_called(arguments: str) -> None:
    result = import_text(
        "airflow",
        f"from a import f\n{HEAD}PythonOperator(task_id='t', python_callable=f,\n{arguments})\n"
        "BashOperator(task_id='other', bash_command='x')",
    )

    task, other = only_job(result)["tasks"]
    assert "python" not in task
    assert task["command"].endswith("exit 1")
    assert other["command"] == ["bash", "-c", "x"]
    assert lost_in(result) == [4]


@pytest.mark.parametrize(
    ("arguments", "lost"),
    [
        ("tags=['a', os.environ['B']]", [2]),
        ("tags=['a'], default_args={'email': 'ops@example.com'}", [2]),
        ("tags=['a'], default_args={'email': 'x', 'email_on_failure': False}", []),
        ("tags=['a'], schedule='@daily', catchup=CATCHUP", [2]),
        ("'d2', 'Text', '@daily', 5, tags=['a']", [2]),
    ],
)
def test_values_of_a_dag_that_are_not_written_are_lost(arguments: str, lost: list[int]) -> None:
    head = "" if arguments.startswith("'d2'") else "'d', "
    result = import_text(
        "airflow", f"dag = DAG({head}\n{arguments})\nEmptyOperator(task_id='t', dag=dag)"
    )

    assert only_job(result)["labels"] == {"tags": "a"}
    assert lost_in(result) == lost


@pytest.mark.parametrize("value", ["True", "IS_TEST"])
def test_a_dag_that_may_be_paused_does_not_fire(value: str) -> None:
    result = import_dag(f"schedule='@daily', is_paused_upon_creation={value}")

    assert "schedule" not in only_job(result)
    assert lost_in(result) == [2]


def test_a_dag_without_a_written_name_is_lost_alone() -> None:
    result = import_text(
        "airflow",
        "with DAG(NAME, schedule=None):\n EmptyOperator(task_id='t')\n"
        "with DAG('d', schedule='0 0 31 2 *'):\n EmptyOperator(\ntask_id=NAME)\n",
    )

    job = only_job(result)
    assert (job["name"], job.get("schedule")) == ("d", None)
    assert [task["name"] for task in job["tasks"]] == ["task"]
    assert lost_in(result) == [1, 3, 5]


@pytest.mark.parametrize("arguments", ["trigger_rule=RULE", "skip_on_exit_code=CODE", "pool=POOL"])
def test_values_of_a_task_that_are_not_written_are_lost(arguments: str) -> None:
    task, result = task_with(f"bash_command='x', {arguments}")

    assert "triggerRule" not in task
    assert lost_in(result) == [3]


def test_a_command_that_is_a_file_of_airflow_is_lost() -> None:
    _, result = task_with("bash_command='scripts/run.sh'")

    assert lost_in(result) == [3]
    assert lost_in(task_with("bash_command='scripts/run.sh '")[1]) == []


def test_arguments_of_a_decorator_are_those_of_the_task() -> None:
    result = import_text(
        "airflow",
        "@dag(schedule=None)\ndef d():\n"
        " @task.branch(task_id='bb', retries=2, trigger_rule='all_done')\n def br(): pass\n"
        " @task(pool='p')\n def last(x): pass\n"
        " last.override(task_id='end')(br())\n"
        " [last(n) for n in ROWS]\n",
    )

    first, second = only_job(result)["tasks"]
    assert (first["name"], first["triggerRule"]) == ("bb", "all_done")
    assert first["retries"]["limit"] == 2
    assert (second["name"], second["needs"]) == ("end", ["bb"])
    assert lost_in(result) == [5, 7, 7, 8]


@pytest.mark.parametrize("arguments", ["GROUP", "'g', prefix_group_id=False", "f'{x}'"])
def test_a_group_that_has_more_than_its_name_is_noted(arguments: str) -> None:
    result = import_text(
        "airflow", f"{HEAD}with dag:\n with TaskGroup({arguments}):\n  EmptyOperator(task_id='t')"
    )

    assert lost_in(result) == [3]


def test_arguments_of_a_written_dict_are_arguments() -> None:
    result = import_text(
        "airflow",
        "ARGS = {'schedule': '@daily', 'catchup': False}\nDAG(**OTHER)\n"
        "dag = DAG('d', **ARGS)\nEmptyOperator(task_id='t', dag=dag)",
    )

    assert only_job(result)["schedule"] == "@daily"


def test_a_dag_whose_name_is_in_unknown_arguments_is_lost_alone() -> None:
    result = import_text(
        "airflow",
        f"{HEAD}EmptyOperator(task_id='t', dag=dag)\n"
        "with DAG(**ARGS):\n EmptyOperator(task_id='t')",
    )

    assert only_job(result)["name"] == "d"
    assert lost_in(result) == [3]
