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
        "'cron', hour=1,\njitter=5, max_instances=2,\nweek=3)\ns.add_job('a:b', MINE"
    )

    lost = [(line, word) for line, effect, word in notes_of(result) if effect == "lost"]
    assert lost == [(3, "jitter"), (3, "max_instances=2"), (4, "week:"), (5, "the")]


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
        ("s.add_job('a:b', 'cron', hour=1,\nargs=[x()])", "file:2: args"),
    ],
)
def test_an_invalid_job_is_named_with_its_line(text: str, message: str) -> None:
    with pytest.raises(InvalidFile, match=message):
        import_text("apscheduler", text)
