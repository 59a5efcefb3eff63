"""Crontabs as definitions of jobs."""

import pytest

from rota.client.definitions import InvalidFile
from rota.client.imports.crontab import is_system_path
from rota.client.imports.drafts import Source
from rota.client.imports.job_names import name_of_command
from unit.client.imports.accepted import import_files, import_text, notes_of, only_job

HEAD = "CRON_TZ=Europe/Berlin\nHOME=/srv\n"
"""Lines without which an import has notes."""

DEBIAN = """\
# /etc/crontab: system-wide crontab
SHELL=/bin/sh
PATH=/usr/local/sbin:/usr/local/bin:/sbin:/bin:/usr/sbin:/usr/bin

# Example of job definition:
# .---------------- minute (0 - 59)
# |  .------------- hour (0 - 23)
# *  *  *  *  * user-name command to be executed
17 *\t* * *\troot\tcd / && run-parts --report /etc/cron.hourly
25 6\t* * *\troot\ttest -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.daily; }
47 6\t* * 7\troot\ttest -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.weekly; }
52 6\t1 * *\troot\ttest -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.monthly; }
#
"""


def test_the_crontab_of_debian_is_in_the_system_form() -> None:
    result = import_text("crontab", DEBIAN, "/etc/crontab")

    assert [job.line for job in result.jobs] == [9, 10, 11, 12]
    assert [job.next[0] for job in result.jobs] == [
        "2027-01-01T00:17:00+00:00",
        "2027-01-01T06:25:00+00:00",
        "2027-01-03T06:47:00+00:00",
        "2027-01-01T06:52:00+00:00",
    ]
    first = result.jobs[0].definition
    assert first == {
        "name": "run-parts-cron.hourly",
        "schedule": "17 * * * *",
        "command": "cd / && run-parts --report /etc/cron.hourly",
        "user": "root",
        "env": {
            "SHELL": "/bin/sh",
            "PATH": "/usr/local/sbin:/usr/local/bin:/sbin:/bin:/usr/sbin:/usr/bin",
        },
        "misfire": "skip",
    }
    assert [job.definition["name"] for job in result.jobs[1:]] == [
        f"run-parts-cron.{each}" for each in ("daily", "weekly", "monthly")
    ]
    assert {note.effect for note in result.report} == {"changed"}
    assert [note.line for note in result.report if "as the user root" in note.what] == [
        9,
        10,
        11,
        12,
    ]


def test_next_fire_times_are_three_in_the_time_zone_of_the_entry() -> None:
    result = import_text("crontab", HEAD + "30 2 * * mon-fri backup\n")

    assert result.jobs[0].next == [
        "2027-01-01T02:30:00+01:00",
        "2027-01-04T02:30:00+01:00",
        "2027-01-05T02:30:00+01:00",
    ]
    assert result.report == []
    assert result.is_whole


def test_a_day_of_either_field_is_enough() -> None:
    result = import_text("crontab", HEAD + "0 0 13 * Fri friday\n")

    assert [fire[:10] for fire in result.jobs[0].next] == ["2027-01-08", "2027-01-13", "2027-01-15"]


def test_a_percent_sign_ends_the_command_and_begins_its_input() -> None:
    text = HEAD + r"0 9 * * 1 mail -s \%week ana%Good morning%100\% done"

    job = only_job(import_text("crontab", text))

    assert job["command"] == "mail -s %week ana"
    assert job["stdin"] == "Good morning\n100% done\n"


def test_variables_hold_for_the_entries_below_them() -> None:
    text = HEAD + "0 1 * * * first\n'KIND' = \"a b\"\nEMPTY=\n0 2 * * * second\n"

    first, second = (job.definition for job in import_text("crontab", text).jobs)

    assert first["env"] == {"HOME": "/srv"}
    assert second["env"] == {"HOME": "/srv", "KIND": "a b", "EMPTY": ""}
    assert first["cwd"] == second["cwd"] == "/srv"


def test_another_shell_runs_the_command() -> None:
    job = only_job(import_text("crontab", HEAD + "SHELL=/bin/bash\n0 1 * * * [[ a ]] && run\n"))

    assert job["command"] == ["/bin/bash", "-c", "[[ a ]] && run"]


def test_mail_is_lost_unless_it_is_off() -> None:
    text = HEAD + 'MAILTO=""\nMAILTO=ops@example.com\nRANDOM_DELAY=10\n0 1 * * * run\n'

    result = import_text("crontab", text)

    assert notes_of(result) == [
        (4, "lost", "MAILTO=ops@example.com:"),
        (5, "lost", "RANDOM_DELAY=10"),
    ]
    assert "onFailure" in result.report[0].remedy
    assert not result.is_whole


@pytest.mark.parametrize(
    ("written", "schedule", "first"),
    [
        ("@daily", "@daily", "2027-01-02T00:00:00+01:00"),
        ("@Midnight", "@midnight", "2027-01-02T00:00:00+01:00"),
        ("@weekly", "@weekly", "2027-01-03T00:00:00+01:00"),
        ("@yearly", "@yearly", "2028-01-01T00:00:00+01:00"),
        ("-*/15 * * * *", "*/15 * * * *", "2027-01-01T01:15:00+01:00"),
    ],
)
def test_short_forms_and_hyphens_keep_their_meaning(
    written: str, schedule: str, first: str
) -> None:
    result = import_text("crontab", f"{HEAD}{written} run\n")

    assert only_job(result)["schedule"] == schedule
    assert result.jobs[0].next[0] == first


def test_a_reboot_is_the_start_of_a_node() -> None:
    result = import_text("crontab", HEAD + "@reboot /opt/agent --quiet\n")

    assert only_job(result)["schedule"] == "@startup"
    assert result.jobs[0].next == []
    assert notes_of(result) == [(3, "changed", "@reboot:")]


def test_a_random_time_is_lost_with_its_entry() -> None:
    result = import_text("crontab", HEAD + "0~30 3 * * * random\n0 3 * * * fixed\n")

    assert only_job(result)["name"] == "fixed"
    assert notes_of(result) == [(3, "lost", "0~30")]


def test_a_zone_of_the_commands_is_noted() -> None:
    result = import_text("crontab", "HOME=/srv\nTZ=Asia/Tokyo\n0 3 * * * run\n")

    job = only_job(result)
    assert (job["timezone"], job["env"]["TZ"]) == ("Asia/Tokyo", "Asia/Tokyo")
    assert notes_of(result) == [(2, "changed", "TZ=Asia/Tokyo:")]


def test_what_the_file_does_not_name_is_noted_once() -> None:
    result = import_text("crontab", "0 3 * * * a\n0 4 * * * b\n")

    assert notes_of(result) == [(1, "changed", "cron"), (1, "changed", "cron")]


def test_comments_above_an_entry_are_its_description() -> None:
    text = HEAD + (
        "# About the file.\n\n# Back up.\n# Twice.\n0 1 * * * a\n0 2 * * * b\n"
        "#0 3 * * * disabled\n# Tidy up.\n0 4 * * * c\n"
        "# m h  dom mon dow   command\n0 5 * * * d\n"
    )

    jobs = [job.definition for job in import_text("crontab", text).jobs]

    described = {job["name"]: job.get("description") for job in jobs}
    assert described == {"a": "Back up.\nTwice.", "b": None, "c": "Tidy up.", "d": None}


def test_equal_commands_have_names_that_do_not_depend_on_their_order() -> None:
    lines = ["0 1 * * * run\n", "0 2 * * * run\n", "0 3 * * * other\n"]

    def names(text: str) -> dict[str, str]:
        jobs = import_text("crontab", HEAD + text).jobs
        return {job.definition["schedule"]: job.definition["name"] for job in jobs}

    found = names("".join(lines))
    assert found == names("".join(reversed(lines)))
    assert len(set(found.values())) == 3
    assert found["0 3 * * *"] == "other"


def test_the_same_entry_twice_has_two_names() -> None:
    jobs = import_text("crontab", HEAD + "0 1 * * * run\n0 1 * * * run\n").jobs

    first, second = (job.definition["name"] for job in jobs)
    assert second == f"{first}-2"


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("[ -x /usr/lib/php/sessionclean ] && /usr/lib/php/sessionclean", "sessionclean"),
        ("nice -n 10 /opt/bin/report.sh --all >> /var/log/report.log 2>&1", "report.sh"),
        ("LANG=C /usr/bin/certbot -q renew", "certbot-renew"),
        ("/usr/bin/python3 /srv/app/manage.py clearsessions", "python3-manage.py-clearsessions"),
        ("%", "%"),
    ],
)
def test_a_name_has_the_program_and_its_first_arguments(command: str, name: str) -> None:
    assert name_of_command(command) == name


def test_the_system_form_is_found_by_the_path_or_given() -> None:
    text = HEAD + "0 1 * * * www-data run\n"

    assert is_system_path("/etc/cron.d/php")
    assert not is_system_path("/home/ana/etc/cron.d/php")
    assert (
        only_job(import_files("crontab", Source("x", text, is_system=True)))["user"] == "www-data"
    )
    assert only_job(import_text("crontab", text))["command"] == "www-data run"
    given = Source("/etc/cron.d/x", text, is_system=False)
    assert only_job(import_files("crontab", given))["command"] == "www-data run"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n61 * * * * run", "tab:2: .*minute 61"),
        ("* * * * *", "tab:1: .*is no entry"),
        ("@hourly", "tab:1: .*is no entry"),
        ("hello world", "tab:1: .*is no entry"),
        ("@fortnightly run", "tab:1: there is no schedule @fortnightly"),
        ("CRON_TZ=Mars/Base\n* * * * * run", "tab:1: .*Mars/Base"),
    ],
)
def test_an_invalid_line_is_named(text: str, message: str) -> None:
    with pytest.raises(InvalidFile, match=message):
        import_text("crontab", text, "tab")


def test_all_invalid_lines_are_named_at_once() -> None:
    text = "61 * * * * run\n0 1 * * * run\nhello\nCRON_TZ=Mars/Base\n"
    other = Source("other", "@fortnightly run")

    with pytest.raises(InvalidFile) as raised:
        import_files("crontab", Source("tab", text), other)

    lines = str(raised.value).splitlines()
    assert [line.split(": ")[0] for line in lines] == ["tab:1", "tab:3", "tab:4", "other:1"]


def test_jobs_are_in_the_given_namespace() -> None:
    source = Source("x", HEAD + "0 1 * * * run\n")

    assert only_job(import_files("crontab", source, namespace="team"))["namespace"] == "team"


def test_a_time_that_never_comes_is_lost_alone() -> None:
    result = import_text("crontab", HEAD + "0 0 31 2 * off\n0 3 * * * on\n")

    assert [(job.definition["name"], job.definition.get("schedule")) for job in result.jobs] == [
        ("off", None),
        ("on", "0 3 * * *"),
    ]
    assert notes_of(result) == [(3, "lost", "0")]


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "0 1 * * * run\n0 2 * * * root /bin/x\n",
        HEAD + "# *  *  *  *  * user-name  command to be executed\n\n0 1 * * * ana run\n",
        HEAD + "#m h dom mon dow user\tcommand\n\n0 1 * * * ana run\n",
        HEAD + "SHELL=/bin/bash\n0 2 * * * www-data run\n",
    ],
)
def test_a_user_before_the_command_is_noted(text: str) -> None:
    result = import_files("crontab", Source("copy", text))

    assert [effect for _, effect, _ in notes_of(result)] == ["lost"]
    assert "--system" in result.report[0].remedy
    given = import_files("crontab", Source("copy", text, is_system=False))
    assert given.report == []


@pytest.mark.parametrize("command", ["root -l -q fit.C", "git pull", "root/run x", "rooted x"])
def test_a_command_that_is_no_user_is_not_noted(command: str) -> None:
    assert import_text("crontab", f"{HEAD}0 1 * * * {command}\n").report == []
