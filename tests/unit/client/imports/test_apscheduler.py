"""Jobs of APScheduler as definitions of jobs."""

import pytest

from rota.client.definitions import InvalidFile
from rota.client.imports.imported import Imported
from unit.client.imports.accepted import import_text, notes_of, only_job

MODULE = """\
from apscheduler.schedulers.blocking import BlockingScheduler
from shop.reports import send

scheduler = BlockingScheduler(timezone="Europe/Berlin")
scheduler.add_job(send, "cron", id="report", hour=6, minute=30, args=["eu"], misfire_grace_time=60)

@scheduler.scheduled_job("interval", minutes=5)
def poll():
    pass

scheduler.start()
raise SystemExit("the file was executed")
"""


def import_job(arguments: str) -> Imported:
    """Return the import of a job with these arguments in line 2."""
    return import_text(
        "apscheduler", f"s = Scheduler(timezone='UTC')\ns.add_job('a:b', {arguments})"
    )


def days_of(arguments: str) -> list[str]:
    """Return the days of the next fire times of a job."""
    return [fire[5:10] for fire in import_job(arguments).jobs[0].next]


def test_a_module_is_read_and_not_executed() -> None:
    result = import_text("apscheduler", MODULE)

    assert only_job(result) == {
        "name": "report",
        "schedule": "30 6 * * *",
        "timezone": "Europe/Berlin",
        "overlap": "skip",
        "misfire": "skip",
        "grace": 60,
        "python": {"function": "shop.reports:send", "args": ["eu"]},
    }
    assert notes_of(result) == [(5, "changed", "shop.reports:send:"), (7, "lost", "the")]


@pytest.mark.parametrize(
    ("arguments", "schedule"),
    [
        ("'cron', hour=3", "0 3 * * *"),
        ("'cron', minute='*/5'", "*/5 * * * *"),
        ("'cron', second=10", "10 * * * * *"),
        ("'cron', month=2", "0 0 1 2 *"),
        ("'cron', year=2030, month=1", "0 0 0 1 1 * 2030"),
        ("'cron', day='last', hour=1", "0 1 L * *"),
        ("'cron', day='3rd fri'", "0 0 * * FRI#3"),
        ("'cron', day='last sun'", "0 0 * * SUNL"),
        ("CronTrigger(hour='1, 2')", "0 1,2 * * *"),
        ("CronTrigger.from_crontab('0 1 * * 0')", "0 1 * * MON"),
        ("'interval', hours=1, seconds=5", "@every 3605s"),
        ("IntervalTrigger(days=1)", "@every 86400s"),
        ("trigger='date', run_date='2027-02-01 10:00:00'", "@at 2027-02-01T10:00:00"),
    ],
)
def test_triggers_are_schedules(arguments: str, schedule: str) -> None:
    assert only_job(import_job(arguments))["schedule"] == schedule


def test_weekday_0_is_monday() -> None:
    assert days_of("'cron', day_of_week=0") == ["01-04", "01-11", "01-18"]


def test_a_step_of_weekdays_begins_on_monday() -> None:
    # Friday has begun; Sunday, Monday and Wednesday follow.
    assert days_of("'cron', day_of_week='*/2'") == ["01-03", "01-04", "01-06"]


def test_day_and_weekday_both_have_to_match() -> None:
    assert days_of("'cron', day=13, day_of_week='fri'") == ["08-13", "10-13", "04-13"]


@pytest.mark.parametrize(
    ("options", "misfire"),
    [
        ("", {"misfire": "skip", "grace": 1}),
        (", misfire_grace_time=None", {"misfire": "latest"}),
        (", misfire_grace_time=None, coalesce=False", {"misfire": "all"}),
    ],
)
def test_late_fire_times_have_the_policy_that_they_have_there(
    options: str, misfire: dict[str, object]
) -> None:
    job = only_job(import_job(f"'cron', hour=1{options}"))

    assert {key: job[key] for key in ("misfire", "grace") if key in job} == misfire


def test_what_has_no_equal_is_lost_with_its_line() -> None:
    result = import_job(
        "'cron', hour=1,\nexecutor='x', max_instances=2,\nweek=3)\ns.add_job('a:b', MINE"
    )

    lost = [(line, word) for line, effect, word in notes_of(result) if effect == "lost"]
    assert lost == [(3, "executor"), (3, "max_instances=2"), (4, "week:"), (5, "the")]


def test_a_scheduler_without_a_time_zone_is_noted() -> None:
    result = import_text("apscheduler", "s.add_job('a:b', 'cron', hour=1)")

    assert [what for _, _, what in notes_of(result)] == ["a:b:", "the"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "file:1: the file neither"),
        ("s.add_job('a:b', 'cron',\nhour=25)", "file:1: .*hour 25"),
        ("s.add_job('a:b', 'cron',\nday_of_week=7)", "file:2: day_of_week is 7"),
        ("s.add_job('a:b', 'interval',\nhours='x')", "file:2: hours is 'x'"),
        ("s.add_job('a:b', 'cron', hour=1,\nmisfire_grace_time='x')", "file:2: misfire_grace_time"),
        ("s.add_job('a:b', 'cron', hour=1,\nargs=[b'x'])", "file:2: args"),
    ],
)
def test_an_invalid_job_is_named_with_its_line(text: str, message: str) -> None:
    with pytest.raises(InvalidFile, match=message):
        import_text("apscheduler", text)


@pytest.mark.parametrize(
    ("arguments", "schedule"),
    [
        (
            "CronTrigger(hour=3, jitter=5, end_date='2027-02-01')",
            {"schedule": "0 3 * * *", "endAt": "2027-02-01T00:00:00", "jitter": "5s"},
        ),
        (
            "'cron', hour=3, start_date=datetime(2027, 2, 1, 5)",
            {"schedule": "0 3 * * *", "startAt": "2027-02-01T05:00:00"},
        ),
        (
            "IntervalTrigger(0, 0, 0, 30, start_date='2027-01-01 00:10:00', jitter=60)",
            {
                "schedule": "@every 1800s phase 600s",
                "startAt": "2027-01-01T00:10:00",
                "jitter": "60s",
            },
        ),
        (
            "'interval', days=1, end_date=datetime(2027, 2, 1, tzinfo=ZoneInfo('Asia/Tokyo'))",
            {"schedule": "@every 86400s", "endAt": "2027-01-31T15:00:00Z"},
        ),
    ],
)
def test_limits_and_jitter_are_those_of_the_schedule(
    arguments: str, schedule: dict[str, str]
) -> None:
    result = import_job(arguments)

    assert only_job(result)["schedules"] == [schedule]
    assert "lost" not in [effect for _, effect, _ in notes_of(result)]


@pytest.mark.parametrize(
    "when", ["'2027-01-01 05:00:00'", "run_date='2027-01-01 05:00'", "datetime(2027, 1, 1, 5)"]
)
def test_a_date_is_a_single_fire_time(when: str) -> None:
    job = only_job(import_job(f"DateTrigger({when})"))

    assert job["schedule"] == "@at 2027-01-01T05:00:00"


@pytest.mark.parametrize(
    "arguments",
    [
        "'cron', hour=HOUR",
        "CronTrigger(hour=HOUR)",
        "CronTrigger.from_crontab(TIMES)",
        "'interval', hours=HOUR",
        "'date', run_date=WHEN",
        "'cron', day=31, month=2, day_of_week=1",
        "'cron', hour=1, start_date='2027-02-01', end_date='2027-01-01'",
        "'cron', hour=1, args=[HOST]",
        "'cron', None, {'a': HOST}, hour=1",
        "'cron', hour=1, next_run_time=None",
    ],
)
def test_a_job_that_would_fire_otherwise_than_there_does_not_fire(arguments: str) -> None:
    first = "s = Scheduler(timezone='UTC'); s.add_job('a:b', 'interval', hours=1)"
    text = f"{first}\ns.add_job('a:c', {arguments})"
    other, job = (each.definition for each in import_text("apscheduler", text).jobs)

    assert other["schedule"] == "@every 3600s"
    assert job["name"] == "c"
    assert "schedule" not in job
    assert "schedules" not in job
    lost = [note for note in notes_of(import_text("apscheduler", text)) if note[1] == "lost"]
    assert [line for line, _, _ in lost] == [2]


def test_the_report_has_the_schedule_of_a_paused_job() -> None:
    result = import_job("'cron', hour=3, next_run_time=None")

    assert any('schedule: "0 3 * * *"' in note.remedy for note in result.report)


def test_arguments_without_names_are_read_by_their_order() -> None:
    job = only_job(import_job("'cron', ['eu'], {'n': 1}, 'report', hour=1"))

    assert job["name"] == "report"
    assert job["python"] == {"function": "a:b", "args": ["eu"], "kwargs": {"n": 1}}


@pytest.mark.parametrize(
    ("zone", "timezone"),
    [
        ("ZoneInfo('Asia/Tokyo')", "Asia/Tokyo"),
        ("pytz.timezone('Asia/Tokyo')", "Asia/Tokyo"),
        ("pytz.utc", "UTC"),
        ("timezone.utc", "UTC"),
        ("os.environ.get('TZ')", None),
        ("ZONE", None),
    ],
)
def test_a_time_zone_is_read_or_lost(zone: str, timezone: str | None) -> None:
    for text in (
        f"s = Scheduler(timezone={zone})\ns.add_job('a:b', 'cron', hour=1)",
        f"\ns.add_job('a:b', CronTrigger(hour=1, timezone={zone}))",
    ):
        result = import_text("apscheduler", text)

        assert only_job(result).get("timezone") == timezone
        lost = [what for _, effect, what in notes_of(result) if effect == "lost"]
        assert lost == ([] if timezone else ["the"])
        assert "time zone of the machine" not in str(result.report)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ("'cron', hour=1, id=H", ["b"]),
        ("'cron', hour=1, id=H + '-x', name='n'", ["n"]),
        ("'cron', hour=1, misfire_grace_time=H", []),
    ],
)
def test_a_value_that_is_not_written_is_lost(arguments: str, names: list[str]) -> None:
    result = import_job(arguments)

    assert [job.definition["name"] for job in result.jobs] == names
    assert (2, "lost") in [note[:2] for note in notes_of(result)]


def test_calls_that_change_jobs_are_lost() -> None:
    result = import_job("'interval', hours=1)\ns.pause_job('x'")

    assert (3, "lost", "pause_job:") in notes_of(result)


@pytest.mark.parametrize(
    ("statement", "effects"),
    [
        ("if PRODUCTION:", ["add_job"]),
        ("for n in ROWS:", ["add_job"]),
        ("if __name__ == '__main__':", []),
        ("def main():", []),
    ],
)
def test_a_job_in_a_condition_or_a_loop_is_noted(statement: str, effects: list[str]) -> None:
    result = import_text("apscheduler", f"{statement}\n s.add_job('a:b', 'interval', hours=1)")

    assert [what for _, _, what in notes_of(result) if what == "add_job"] == effects
