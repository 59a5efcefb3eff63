"""Beat schedules of Celery as definitions of jobs."""

import json
from pathlib import Path

import pytest

from rota.client.definitions import InvalidFile
from rota.client.imports.imported import Imported
from unit.client.imports.accepted import import_text, notes_of, only_job

ENTRY: dict[str, object] = {
    "task": "shop.tasks.report",
    "schedule": {"crontab": {"minute": 30, "hour": "6"}},
}
MODULE = """\
from celery import Celery
from celery.schedules import crontab
from datetime import timedelta

app = Celery("shop")
DAY = 24 * 3600
app.conf.timezone = "Europe/Berlin"
app.conf.beat_schedule = {
    "report": {
        "task": "shop.tasks.report",
        "schedule": crontab(hour=6, minute=30, day_of_week="mon-fri"),
        "args": ("eu", 2),
    },
    "clean": {"task": "shop.tasks.clean", "schedule": timedelta(hours=1)},
    "count": dict(task="shop.tasks.count", schedule=DAY, options={"queue": "slow"}),
}
raise SystemExit("the file was executed")
"""


def import_entry(**members: object) -> Imported:
    """Return the import of one entry, with further or other members."""
    return import_text("celery-beat", json.dumps({"report": ENTRY | members}, indent=1))


def import_crontab(**fields: object) -> Imported:
    """Return the import of an entry with a crontab."""
    return import_entry(schedule={"crontab": fields})


def import_schedule(expression: str) -> Imported:
    """Return the import of an entry whose schedule is a Python expression in line 2."""
    entry = f'{{"task": "a.b",\n"schedule": {expression}}}'
    return import_text("celery-beat", f'beat_schedule = {{"x": {entry}}}')


def test_an_entry_is_carried_over() -> None:
    result = import_entry(args=["eu"], kwargs={"size": 2}, options={"expires": 60})

    assert only_job(result) == {
        "name": "report",
        "schedule": "30 6 * * *",
        "python": {"function": "shop.tasks:report", "args": ["eu"], "kwargs": {"size": 2}},
        "startDeadline": 60,
    }
    assert notes_of(result) == [(3, "changed", "shop.tasks.report:")]


def test_a_whole_configuration_has_a_time_zone() -> None:
    text = json.dumps({"timezone": "Asia/Tokyo", "beat_schedule": {"report": ENTRY}})

    result = import_text("celery-beat", text)

    assert result.jobs[0].next[0] == "2027-01-02T06:30:00+09:00"


@pytest.mark.parametrize(
    ("fields", "schedule"),
    [
        ({}, "* * * * *"),
        ({"minute": "*/15", "hour": "8-17/3"}, "*/15 8-17/3 * * *"),
        ({"minute": 0, "hour": [7, 16]}, "0 7,16 * * *"),
        ({"minute": "0", "hour": "0, 12", "day_of_week": "sunday,FRI"}, "0 0,12 * * SUN,FRI"),
        ({"minute": "*/90", "month_of_year": "jan-june"}, "0 * * JAN-JUN *"),
    ],
)
def test_fields_of_a_crontab_are_those_of_cron(fields: dict[str, object], schedule: str) -> None:
    assert only_job(import_crontab(**fields))["schedule"] == schedule


def test_weekday_0_is_sunday() -> None:
    result = import_crontab(minute=0, hour=0, day_of_week=0)

    assert result.jobs[0].next[0] == "2027-01-03T00:00:00+00:00"


def test_a_step_of_weekdays_begins_on_sunday() -> None:
    result = import_crontab(minute=0, hour=0, day_of_week="*/2")

    # Saturday, Sunday and Tuesday.
    assert [fire[:10] for fire in result.jobs[0].next] == ["2027-01-02", "2027-01-03", "2027-01-05"]


def test_day_and_weekday_both_have_to_match() -> None:
    result = import_crontab(minute=0, hour=0, day_of_month=13, day_of_week=5)

    assert [fire[:10] for fire in result.jobs[0].next] == ["2027-08-13", "2028-10-13", "2029-04-13"]
    assert only_job(result)["schedules"] == [{"schedule": "0 0 13 * 5", "dayOr": False}]


def test_a_number_is_an_interval_in_seconds() -> None:
    result = import_entry(schedule=0.5)

    assert only_job(result)["schedule"] == "@every 0.5s"
    assert notes_of(result)[1] == (4, "changed", "an")


def test_braces_in_arguments_are_no_template() -> None:
    job = only_job(import_entry(args=[["{{ x }}"]]))

    assert job["python"]["args"] == [["{% raw %}{{ x }}{% endraw %}"]]


def test_a_module_is_read_and_not_executed() -> None:
    result = import_text("celery-beat", MODULE)

    report, clean, count = (job.definition for job in result.jobs)
    assert report["schedule"] == "30 6 * * MON-FRI"
    assert report["python"] == {"function": "shop.tasks:report", "args": ["eu", 2]}
    assert result.jobs[0].next[0] == "2027-01-01T06:30:00+01:00"
    assert (clean["schedule"], count["schedule"]) == ("@every 3600s", "@every 86400s")
    assert [job.line for job in result.jobs] == [9, 14, 15]
    assert [note for note in notes_of(result) if note[1] == "lost"] == [(15, "lost", "queue")]


def test_a_module_that_would_write_a_file_writes_none(tmp_path: Path) -> None:
    target = tmp_path / "written"
    text = f"open({str(target)!r}, 'w')\nbeat_schedule = {{}}"

    import_text("celery-beat", text)

    assert not target.exists()


@pytest.mark.parametrize(
    "text",
    [
        "beat_schedule: dict = {E}",
        "app.conf.beat_schedule = {E}",
        "CELERY_BEAT_SCHEDULE = {E}",
        "app.conf.update(beat_schedule={E})",
        "app.conf.beat_schedule.update({E})",
        "app.conf.beat_schedule['x'] = {'task': 'a.b', 'schedule': 60}",
        "TABLE = {E}\nbeat_schedule = TABLE",
        "class Settings:\n    beat_schedule = {E}",
    ],
)
def test_a_schedule_is_found_where_it_is_assigned(text: str) -> None:
    module = text.replace("{E}", "{'x': {'task': 'a.b', 'schedule': 60}}")

    job = only_job(import_text("celery-beat", module))

    assert (job["name"], job["schedule"]) == ("x", "@every 60s")


@pytest.mark.parametrize(
    ("expression", "schedule"),
    [
        ("crontab()", "* * * * *"),
        ("crontab(0, '*/3')", "0 */3 * * *"),
        ("schedules.crontab(minute=0, hour=1, app=app)", "0 1 * * *"),
        ("schedule(run_every=timedelta(minutes=1, seconds=30))", "@every 90s"),
        ("60 * 5", "@every 300s"),
    ],
)
def test_expressions_of_schedules_are_read(expression: str, schedule: str) -> None:
    assert only_job(import_schedule(expression))["schedule"] == schedule


def test_a_schedule_that_is_no_interval_and_no_crontab_is_lost() -> None:
    result = import_schedule("solar('sunset', 1, 2)")

    assert "schedule" not in only_job(result)
    assert notes_of(result)[1] == (2, "lost", "schedule:")


def test_what_only_the_execution_knows_is_lost_with_its_line() -> None:
    result = import_text(
        "celery-beat",
        "beat_schedule = {\n'x': {'task': 'a.b', 'schedule': 9,\n'args': (today(),)},\n**MORE}\n"
        "app.add_periodic_task(9, f.s())\nbeat_schedule = load()\n",
    )

    assert only_job(result)["python"] == "a:b"
    assert [line for line, effect, _ in notes_of(result) if effect == "lost"] == [3, 4, 5, 6]


def test_a_task_that_is_no_function_is_left_out() -> None:
    result = import_entry(task="report")

    assert result.jobs == []
    assert notes_of(result) == [(3, "lost", "the")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = (", "file:1: the file is no Python"),
        ("x = 1", "file:1: there is no beat_schedule"),
        ('{"a": {"schedule": 1}}', "file:1: the entry has no task"),
        ('{"a": {"task": "a.b",\n"schedule": 0}}', "file:2: .*interval 0s"),
        ('{"a": {"task": "a.b",\n"schedule": "daily"}}', "file:2: .*seconds or a crontab"),
        ('{"a": {"task": "a.b",\n"schedule": {"cron": 1}}}', "file:2: .*seconds or a crontab"),
        (
            '{"a": {"task": "a.b", "schedule": {"crontab": {\n"day_of_week": 7}}}}',
            "file:2: .*0 to 6",
        ),
        ('{"a": {"task": "a.b", "schedule": {"crontab": {\n"day": 7}}}}', "file:2: .*the fields"),
        (
            "beat_schedule = {'a': {'task': 'a.b',\n'schedule': crontab(0, 1, 2)}}",
            "file:2: .*write their names",
        ),
        (
            "beat_schedule = {'a': {'task': 'a.b',\n'schedule': crontab(minute='5/2')}}",
            "file:2: .*steps as in",
        ),
    ],
)
def test_an_invalid_schedule_is_named_with_its_line(text: str, message: str) -> None:
    with pytest.raises(InvalidFile, match=message):
        import_text("celery-beat", text)


@pytest.mark.parametrize(
    ("entry", "lost"),
    [
        ("'enabled': False", 2),
        ("'enabled': FLAG", 2),
        ("'args': (HOST,)", 2),
        ("'kwargs': {'host': os.environ['H']}", 2),
        ("'schedule': crontab(hour=HOUR)", 2),
        ("'schedule': crontab(0, 0, day_of_month=31, month_of_year=2, day_of_week=1)", 2),
    ],
)
def test_an_entry_that_would_fire_otherwise_than_there_does_not_fire(entry: str, lost: int) -> None:
    result = import_text(
        "celery-beat",
        f"beat_schedule = {{'x': {{'task': 'a.b', 'schedule': 9,\n{entry}}},\n"
        "'y': {'task': 'a.c', 'schedule': 9, 'enabled': True}}",
    )

    held, other = (job.definition for job in result.jobs)
    assert "schedule" not in held
    assert "schedules" not in held
    assert other["schedule"] == "@every 9s"
    assert [line for line, effect, _ in notes_of(result) if effect == "lost"] == [lost]


def test_an_entry_that_is_off_in_json_does_not_fire() -> None:
    result = import_entry(enabled=False)

    assert "schedule" not in only_job(result)
    assert any('schedule: "30 6 * * *"' in note.remedy for note in result.report)


@pytest.mark.parametrize(
    ("entry", "names"), [("'task': NAME", ["y"]), ("'task': 'a.b', 'options': OPTIONS", ["x", "y"])]
)
def test_an_entry_that_is_not_written_is_lost_alone(entry: str, names: list[str]) -> None:
    result = import_text(
        "celery-beat",
        f"beat_schedule = {{'x': {{'schedule': 9,\n{entry}}},\n"
        "'y': {'task': 'a.c', 'schedule': 9}}",
    )

    assert [job.definition["name"] for job in result.jobs] == names
    assert [line for line, effect, _ in notes_of(result) if effect == "lost"] == [2]


@pytest.mark.parametrize(
    ("zone", "timezone"),
    [("ZoneInfo('Asia/Tokyo')", "Asia/Tokyo"), ("None", None), ("os.environ['TZ']", "lost")],
)
def test_a_time_zone_is_read_or_lost(zone: str, timezone: str | None) -> None:
    result = import_text(
        "celery-beat",
        "beat_schedule = {'x': {'task': 'a.b',\n'schedule': crontab(hour=1)}}\n"
        f"app.conf.timezone = {zone}",
    )

    assert only_job(result).get("timezone", "lost") == (timezone or "lost")
    lost = [line for line, effect, _ in notes_of(result) if effect == "lost"]
    assert lost == ([3] if timezone == "lost" else [])


@pytest.mark.parametrize(
    "statement", ["beat_schedule = {E}", "beat_schedule['x'] = {'task': 'a.b', 'schedule': 60}"]
)
def test_entries_in_a_condition_are_noted(statement: str) -> None:
    text = statement.replace("{E}", "{'x': {'task': 'a.b', 'schedule': 60}}")

    result = import_text("celery-beat", f"if DEBUG:\n {text}")

    assert only_job(result)["schedule"] == "@every 60s"
    assert (2, "changed", "beat_schedule") in notes_of(result)
