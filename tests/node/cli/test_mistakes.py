"""Mistakes that people make, and what they read: what is wrong, where, and what to type next."""

import re
import shlex
from pathlib import Path

import pytest

from rota.client.cli.main import main

COMMANDS = [
    # A command, its exit status, and its error without usage and hints for all.
    ("jbos", 2, "There is no command 'jbos'. Did you mean 'jobs'?"),
    ("job list", 2, "There is no command 'job'. Did you mean 'jobs'?"),
    ("jobs lst", 2, "There is no command 'lst'. Did you mean 'list' or 'set'?"),
    ("executions cancal", 2,
     "Did you mean 'cancel'? If 'cancal' is a job: `rota executions list cancal` lists its exec"),
    ("jobs report", 2, " If 'report' is a job: `rota jobs show report` shows it."),
    ("changes report", 2, " If 'report' is a job: `rota changes --of NAMESPACE/report` lists"),
    ("state report", 2, " If 'report' is a job: `rota state list report` lists its values."),
    ("backfill report", 2, " If 'report' is a job: `rota backfill list report` lists its"),
    ("namespace quota default", 3, "a namespace without a document has no quota; `rota namesp"),
    ("hooks test report", 1, "report has no webhook"),
    ("run report", 2, "`rota trigger JOB` runs a job now"),
    ("jobs create", 2, "name a job and, after two dashes, its command: rota jobs create hello -- "),
    ("jobs create x true", 2, "The command follows two dashes: rota jobs create x -- true"),
    ("jobs create 'my job' -- true", 9, "/name: 'my job' is not a name: 1 to 128"),
    ("jobs create x --schedule '* * * *' -- true", 9,
     '/schedules/0: "* * * *" has 4 fields; a cron expression has 5 (minute hour day month'),
    ("jobs create x --schedule '0 25 * * *' -- true", 9, "has hour 25; hours go from 0 to 23"),
    ("jobs create x --schedule @dayly -- true", 9,
     "there is no schedule @dayly; did you mean @daily or @yearly?"),
    ("jobs create x --schedule '@every 5' -- true", 9,
     "'5' is not a duration; write a number and a unit (ms, s, m, h, d, w), for example 90s"),
    ("jobs create x --schedule '0 0 31 2 *' -- true", 9,
     '"0 0 31 2 *" never fires: no date matches its day, month, weekday and year together'),
    ("jobs create x --schedule '@at tomorrow' -- true", 9,
     "write a time as 2027-01-01T09:00:00Z, with an offset"),
    ("jobs create x --schedule '@at 2020-01-01T00:00:00Z' -- true", 9,
     "hint: for an @at, `--misfire latest` runs it at once, `--misfire skip` records it as missed"),
    ("jobs create x --timezone Europe/Berln --schedule @daily -- true", 9,
     '"Europe/Berln" is not a time zone; did you mean Europe/Berlin'),
    ("jobs create x --retries -1 -- true", 9,
     "/retries: -1 is out of range; give a value from 0 to"),
    ("jobs create x --retries many -- true", 2, "'many' is not a valid integer"),
    ("jobs create x --timeout soon -- true", 9, "/timeout: 'soon' is not a duration; write a"),
    ("jobs create x --priority 500 -- true", 2, "500 is not in the range -100<=x<=100"),
    ("jobs create x --label team -- true", 2, "'team' is not KEY=VALUE"),
    ("jobs create x --memory 5q -- true", 9,
     "/limits/memory: '5q' is not a size; write a number and a unit (KiB, MiB, GiB"),
    ("jobs create x --after nothing -- true", 9,
     "/dependencies/0: the job 'default/nothing' does not exist; create it first"),
    ("jobs create x --python func", 9,
     "/python: 'func' is not the name of a Python function; write"),
    ("jobs create x --type nothing", 9, "there is no task type or job type 'nothing'; this node"),
    ("jobs create x --bind /srv -- true", 2,
     "--bind and --[no-]network are for a --sandbox or an --image"),
    ("jobs create report -- false", 5,
     "hint: `rota jobs diff` shows the differences, `rota jobs apply` replaces the job"),
    ("jobs show reprot", 3, "did you mean 'default/report'?"),
    ("jobs show other/report", 3, "there is no job 'other/report'; check the name"),
    ("jobs delete reprot", 3, "did you mean 'default/report'?"),
    ("jobs create x -n 'bad name' -- true", 9, "/namespace: 'bad name' is not a name: 1 to 128"),
    ("jobs --url localhost:7488", 2, "write it as http://127.0.0.1:7400 (--url)"),
    ("jobs --url ftp://node", 2, "'ftp://node' is not the URL of a node; write it as http://"),
    ("jobs --url http://127.0.0.1:1", 6, "hint: check that the node is running and that this is"),
    ("jobs delete", 2, "name jobs, or select them with --label or --all"),
    ("jobs set report retries", 2, "'retries' is not FIELD=VALUE, such as retries=3"),
    ("trigger report --parameters '{a: 1}'", 2, "'{a: 1}' is not JSON"),
    ("trigger report --timeout 5", 2, "--timeout limits a wait; add --wait or --follow"),
    ("run --timeout 5 -- true", 2, "--timeout limits a wait; add --wait or --follow"),
    ("node drain nothing --timeout 5", 2, "--timeout limits a wait; add --wait"),
    ("trigger report --wait --timeout x", 2, "'x' is not a duration; write a number and a unit"),
    ("trigger report -p dya=2", 2, "has no parameter 'dya'; did you mean 'day'?"),
    ("executions show abc", 3, "`rota executions` lists the latest executions"),
    ("executions show report@latest", 3, "hint: `rota trigger JOB` starts one"),
    ("executions show report@first", 2, "after the @ write 'latest', as in report@latest"),
    ("executions --status done", 2, "'done' is not one of 'queued', 'running', 'success'"),
    ("ledger", 2, "name a job, or give --all"),
    ("ledger report --since yesterday", 2, "nor a local time such as 14:30"),
    ("next '0 0 * * *'", 2, "a schedule follows --schedule: rota next --schedule '0 0 * * *'"),
    ("next --schedule '0 0 * *'", 9, '"0 0 * *" has 4 fields'),
    ("events --type exec", 9, "'exec' is not one of job, job.created"),
    ("get pods", 2, "'pods' is not a kind of documents; the kinds are: types"),
    ("get type nothing", 3, "no job type 'nothing'; check the name: `rota get types`"),
    ("node drain nothing", 3, "check the id: `rota cluster members` lists the nodes"),
    ("shard repair 99999", 3, "; `rota cluster shards` lists them"),
    ("jobs apply -f nofile.yaml", 9, "nofile.yaml: No such file or directory"),
    ("version -o xml", 2, "'xml' is not one of 'table', 'json', 'yaml'"),
]  # fmt: skip
FILES = [
    # A file, and the error of `rota jobs apply -f job.yaml`.
    ("name: x\ncomand: 'true'", "/comand: unknown field 'comand'; did you mean 'command'?"),
    ("name: x\ncommand: true", "/command: needs text or a list, not true or false; put it in"),
    ("command: 'true'", "one of the jobs has no name; give it one, such as `name: report`"),
    ("{nme: x, command: y}", "has no name, but a field 'nme'; did you mean 'name'?"),
    ("name: x", "/tasks: the job needs a command, a type, a python function, a container or tasks"),
    ("name: x\ncommand: a\npython: a:b", "the job has command and python; give one of command"),
    ("name: x\nschedule: */5 * * * *\ncommand: x", 'quote it: schedule: "*/5 * * * *"'),
    ("name: x\n\tcommand: x", "job.yaml:2: found character '\\t' that cannot start any token"),
    ("name: x\nname: y\ncommand: x", "job.yaml:2: there is a second 'name' here: name: y"),
    ("[{name: x, command: a}, {name: x, command: b}]",
     "two of the jobs have the name default/x; rename or remove one"),
    ("just text", "'just text' is not a job; a job has fields, such as name and command"),
    ("", "job.yaml: there is no job in it"),
    ("name: x\ntasks: [{name: a, command: x, needs: [b]}]",
     "/tasks/0/needs/0: task 'a' needs 'b', which is not a task of this job"),
    ("name: x\ntasks: [{name: a, command: x, needs: [b]}, {name: b, command: x, needs: [a]}]",
     "/tasks/0/needs: the needs of the tasks form a cycle: a -> b -> a"),
    ("name: x\ntasks: [{name: a, command: x}, {name: a, command: x}]",
     "/tasks/1/name: another task has the name 'a'"),
    ("name: x\ntasks: {a: {command: x}}", "/tasks: needs a list, not an object"),
    ("name: x\ncommand: x\nlabels: {a: 1}", "/labels: needs text, not a whole number; put it in"),
    ("name: x\ncommand: x\noverlap: forbid", "'forbid' is not one of allow, cancel_running, queue"),
    ("name: x\ncommand: x\nretries: {attempts: 3}",
     "/retries/attempts: unknown field 'attempts'; the fields are limit, backoff, delay"),
    ("name: x\ncommand: x\nenv: [A=1]", "/env: needs an object, not a list"),
    ("name: x\ncontainer: x\ncwd: in/it", "/cwd: 'in/it' is not an absolute path; give the whole"),
    ("name: x\ncontainer: 'bad image!'", "is not the name of an image; write a name such as"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def _job(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a job ``report`` with a parameter, without executions; stand in an empty folder."""
    monkeypatch.setenv("ROTA_URL", url)
    monkeypatch.chdir(tmp_path)
    assert main(["jobs", "create", "report", "-p", "day=1", "--", "true"]) == 0


@pytest.mark.parametrize(("line", "status", "error"), COMMANDS, ids=[row[0] for row in COMMANDS])
def test_a_mistaken_command_is_answered_with_what_to_type(
    line: str, status: int, error: str, capfd: pytest.CaptureFixture[str]
) -> None:
    capfd.readouterr()

    assert main(shlex.split(line)) == status

    assert error in capfd.readouterr().err


@pytest.mark.parametrize(("text", "error"), FILES)
def test_a_mistake_in_a_file_is_answered_with_its_place_and_the_remedy(
    text: str, error: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job.yaml").write_text(text)
    capfd.readouterr()

    assert main(["jobs", "apply", "-f", "job.yaml"]) == 9

    assert error in capfd.readouterr().err


def test_no_error_has_the_words_of_a_library(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for text, _ in FILES:
        (tmp_path / "job.yaml").write_text(text)
        main(["jobs", "apply", "-f", "job.yaml"])

    assert not re.search(r"Expected `|msgspec|Traceback", capfd.readouterr().err)
