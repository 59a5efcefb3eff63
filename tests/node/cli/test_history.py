"""``rota history`` and ``rota rollback``."""

from support.rota_program import Rota


def test_the_history_has_time_author_and_changed_fields_of_each_version(rota: Rota) -> None:
    rota("jobs", "create", "dated", "--schedule", "@daily", "--retries", "1", "--", "echo one")
    rota("jobs", "set", "dated", "retries=2", "labels.team=core")
    rota("jobs", "pause", "dated")
    rota("jobs", "set", "dated", "labels.team=")

    table = rota("history", "dated").out.splitlines()
    newest = rota("history", "dated", "--limit", "1", "-o", "json").json

    assert [line.split()[0] for line in table] == ["VERSION", "3", "2", "1"]
    assert [line.split()[3:] for line in table[1:]] == [
        ["operator", "replaced", "yes", "labels"],
        ["operator", "replaced", "yes", "retries,", "labels"],
        ["operator", "created", "yes"],
    ]
    assert [(each["version"], each["fields"]) for each in newest] == [(3, ["labels"])]


def test_a_job_returns_to_an_earlier_version(rota: Rota) -> None:
    rota("jobs", "create", "returned", "--description", "first", "--", "echo", "1")
    rota("jobs", "set", "returned", "description=second", "command=echo 2")

    tried = rota("rollback", "returned", "1", "--dry-run")
    after_trial = rota("jobs", "show", "returned", "-o", "json").json
    done = rota("rollback", "returned", "1")
    again = rota("rollback", "returned", "1")
    shown = rota("jobs", "show", "returned", "-o", "json").json

    assert (tried.status, after_trial["version"]) == (0, 2)
    assert "returned  replaced  3" in done.out
    assert "returned  unchanged  3" in again.out
    assert (shown["version"], shown["description"]) == (3, "first")
    assert shown["definition"]["command"] == ["echo", "1"]


def test_a_version_that_is_not_stored_is_refused_with_those_that_are(rota: Rota) -> None:
    rota("jobs", "create", "brief", "--", "true")

    refused = rota("rollback", "brief", "7")

    assert refused.status == 3
    assert "version 7 of the job 'default/brief' is not yet defined; stored are 1" in refused.err
