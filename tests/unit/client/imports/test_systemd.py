"""Timers of systemd as definitions of jobs."""

import pytest

from rota.client.definitions import InvalidFile
from rota.client.imports.drafts import Findings, Source
from rota.client.imports.imported import Imported
from rota.client.imports.on_calendar import calendar_time
from rota.client.imports.unit_file import Setting, duration_of
from unit.client.imports.accepted import import_files, notes_of, only_job

TIMER = """\
[Unit]
Description=Daily rotation of log files

[Timer]
OnCalendar=daily
AccuracySec=1h
Persistent=true

[Install]
WantedBy=timers.target
"""
SERVICE = """\
[Unit]
Description=Rotate log files
Documentation=man:logrotate(8)
ConditionACPower=true

[Service]
Type=oneshot
ExecStart=/usr/sbin/logrotate /etc/logrotate.conf
"""


def import_units(timer: str, service: str = SERVICE, name: str = "logrotate") -> Imported:
    """Return the import of a timer and its service."""
    return import_files(
        "systemd", Source(f"u/{name}.timer", timer), Source(f"u/{name}.service", service)
    )


def with_timer(*lines: str) -> str:
    """Return a timer with these lines; the first is line 2."""
    return "[Timer]\n" + "\n".join(lines) + "\n"


def with_service(*lines: str) -> str:
    """Return a service with these lines; the first is line 3."""
    return "[Service]\nUser=app\n" + "\n".join(lines) + "\n"


def test_a_timer_of_debian_is_carried_over() -> None:
    result = import_units(TIMER)

    assert only_job(result) == {
        "name": "logrotate",
        "description": "Rotate log files",
        "schedules": ["0 0 * * *"],
        "misfire": "latest",
        "overlap": "skip",
        "command": ["/usr/sbin/logrotate", "/etc/logrotate.conf"],
        "cwd": "/",
        "stopGrace": "90s",
    }
    assert result.jobs[0].next[0] == "2027-01-02T00:00:00+00:00"
    assert notes_of(result) == [
        (5, "changed", "OnCalendar=daily"),
        (6, "changed", "AccuracySec=1h:"),
        (4, "lost", "ConditionACPower=true"),
        (8, "changed", "without"),
    ]


@pytest.mark.parametrize(
    ("text", "schedule"),
    [
        ("weekly", "0 0 * * MON"),
        ("hourly", "0 * * * *"),
        ("minutely", "* * * * *"),
        ("quarterly", "0 0 1 1,4,7,10 *"),
        ("Mon..Fri *-*-* 06:30:00", "30 6 * * MON-FRI"),
        ("Sat,Sunday 20:15", "15 20 * * SAT,SUN"),
        ("*-*-* 6,18:00", "0 6,18 * * *"),
        ("*:0/15", "0/15 * * * *"),
        ("*-*-* 00:00:00/10", "0/10 0 0 * * *"),
        ("*-*-1..7 4:05:30", "30 5 4 1-7 * *"),
        ("12-24", "0 0 24 12 *"),
        ("*-*~01", "0 0 L * *"),
        ("*-02~03", "0 0 L-2 2 *"),
        ("2027-03-01 12:00", "0 0 12 1 3 * 2027"),
    ],
)
def test_a_time_is_a_cron_expression(text: str, schedule: str) -> None:
    time = calendar_time(text)

    assert time is not None
    assert time.schedule == schedule


@pytest.mark.parametrize(
    "text", ["*-*~7/1 00:00", "*-*-* 00:00:00.5", "@1700000000", "soon", "a b"]
)
def test_a_time_that_is_no_cron_expression_is_lost(text: str) -> None:
    result = import_units(with_timer(f"OnCalendar={text}"))

    assert calendar_time(text) is None
    assert "schedules" not in only_job(result)
    assert (2, "lost", f"OnCalendar={text.split()[0]}") in notes_of(result)


def test_day_and_weekday_have_to_match_both() -> None:
    result = import_units(with_timer("OnCalendar=Fri *-*-13 00:00:00 Europe/Berlin"))

    assert result.jobs[0].next == [
        "2027-08-13T00:00:00+02:00",
        "2028-10-13T00:00:00+02:00",
        "2029-04-13T00:00:00+02:00",
    ]


def test_several_times_are_several_schedules() -> None:
    result = import_units(
        with_timer("OnCalendar=hourly", "OnCalendar=", "OnCalendar=9:00 UTC", "OnCalendar=8:00 UTC")
    )

    assert [fire[11:16] for fire in result.jobs[0].next] == ["08:00", "09:00", "08:00"]
    assert only_job(result)["misfire"] == "skip"


def test_intervals_are_counted_from_a_fixed_instant() -> None:
    result = import_units(
        with_timer("OnBootSec=15min", "OnUnitActiveSec=1h 30min", "RandomizedDelaySec=60")
    )

    assert only_job(result)["schedules"] == ["@every 5400s"]
    assert notes_of(result)[:3] == [
        (2, "lost", "OnBootSec=15min:"),
        (3, "changed", "OnUnitActiveSec=1h"),
        (4, "lost", "RandomizedDelaySec=60"),
    ]


def test_the_settings_of_a_service_are_those_of_the_command() -> None:
    service = with_service(
        "WorkingDirectory=/srv/app",
        'Environment=MODE=fast "TITLE=a b"',
        "Environment=RATE=100%%",
        "TimeoutStartSec=10min",
        "ExecStart=/usr/bin/app --mode ${MODE} \\",
        "    $TITLE $$5 'two words' %p %i",
    )

    job = only_job(import_units(with_timer("OnCalendar=daily"), service, "app@blue"))

    assert job["env"] == {"MODE": "fast", "TITLE": "a b", "RATE": "100%"}
    words = ["/usr/bin/app", "--mode", "fast", "a", "b", "$5", "two words", "app", "blue"]
    assert job["command"] == words
    assert (job["cwd"], job["user"], job["timeout"]) == ("/srv/app", "app", "600s")


def test_a_template_is_the_service_of_its_instances() -> None:
    timer = Source("db@one.timer", with_timer("OnCalendar=daily UTC"))
    other = Source("db@two.timer", with_timer("OnCalendar=daily UTC"))
    template = Source("db@.service", with_service("ExecStart=-/bin/dump %i"))

    result = import_files("systemd", timer, other, template)

    assert [job.definition["command"][1] for job in result.jobs] == ["one", "two"]
    assert notes_of(result) == [(2, "changed", "the"), (3, "lost", "the")]


def test_several_commands_run_one_after_the_other() -> None:
    service = with_service("ExecStart=/bin/a 'x y'", "ExecStart=/bin/b")

    assert only_job(import_units(TIMER, service))["command"] == "/bin/a 'x y' && /bin/b"


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("/bin/sh -c 'a ; b' ; /bin/c", "/bin/sh -c 'a ; b' && /bin/c"),
        ("/bin/a \\; b;c ;", ["/bin/a", ";", "b;c"]),
        ('/bin/a " ; " --x="1 ; 2"', ["/bin/a", " ; ", "--x=1 ; 2"]),
    ],
)
def test_a_semicolon_divides_commands(line: str, command: str | list[str]) -> None:
    job = only_job(import_units(TIMER, with_service(f"ExecStart={line}")))

    assert job["command"] == command


@pytest.mark.parametrize(
    ("line", "lost"),
    [
        ("StandardOutput=append:/var/log/x", [4]),
        ("StandardError=file:/x", [4]),
        ("StandardOutput=journal", []),
    ],
)
def test_output_that_goes_to_a_file_is_lost(line: str, lost: list[int]) -> None:
    result = import_units(with_timer("OnCalendar=daily UTC"), with_service("ExecStart=/a", line))

    assert [number for number, effect, _ in notes_of(result) if effect == "lost"] == lost


def test_a_time_that_never_comes_is_lost() -> None:
    result = import_units(with_timer("OnCalendar=*-02-31 00:00 UTC", "OnCalendar=daily UTC"))

    assert [fire[5:10] for fire in result.jobs[0].next] == ["01-02", "01-03", "01-04"]
    assert (2, "lost", "0") in notes_of(result)


def test_what_a_service_has_beside_its_command_is_lost() -> None:
    service = with_service(
        "ExecStartPre=/bin/prepare",
        "EnvironmentFile=/etc/default/app",
        "WorkingDirectory=~",
        "Type=forking",
        "ExecStart=!/usr/bin/app %h ${NONE}",
    )

    result = import_units(with_timer("OnCalendar=daily UTC"), service)

    assert [each for each in notes_of(result) if each[1] == "lost"] == [
        (3, "lost", "ExecStartPre=/bin/prepare"),
        (4, "lost", "EnvironmentFile=/etc/default/app"),
        (5, "lost", "WorkingDirectory=~"),
        (6, "lost", "Type=forking"),
        (7, "lost", "the"),
        (7, "lost", "the"),
        (7, "lost", "the"),
    ]


def test_a_service_without_a_timer_is_lost() -> None:
    result = import_files("systemd", Source("a.service", SERVICE))

    assert result.jobs == []
    assert notes_of(result) == [(1, "lost", "no")]


@pytest.mark.parametrize(
    ("value", "duration"),
    [
        ("90", "90s"),
        ("1h 30min", "5400s"),
        ("250ms", "250ms"),
        ("2w", "1209600s"),
        ("infinity", ""),
    ],
)
def test_a_span_is_a_duration(value: str, duration: str) -> None:
    assert duration_of(Findings("file"), Setting("Timer", "A", value, 1)) == duration


@pytest.mark.parametrize(
    ("timer", "service", "message"),
    [
        ("OnCalendar=daily", SERVICE, "timer:1: .*no setting in a section"),
        (with_timer("OnCalendar=25:00"), SERVICE, "timer:2: .*hour 25"),
        (with_timer("OnUnitActiveSec=soon"), SERVICE, "timer:2: .*a span is written"),
        (with_timer("Unit=other.service"), SERVICE, "timer:1: the service other.service"),
        (TIMER, "[Service]\n", "service:1: .*no ExecStart"),
        (TIMER, with_service("ExecStart=/bin/a 'x"), "service:3: ExecStart: No closing quotation"),
    ],
)
def test_an_invalid_unit_is_named_with_its_line(timer: str, service: str, message: str) -> None:
    with pytest.raises(InvalidFile, match=message):
        import_units(timer, service)


def test_other_files_are_refused() -> None:
    with pytest.raises(InvalidFile, match=r"a\.socket:1: .*neither"):
        import_files("systemd", Source("a.socket", "[Socket]\n"))
