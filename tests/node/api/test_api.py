"""The API of a running node: documented request bodies, and every kind of invalid input."""

import json
from pathlib import Path
from typing import Any

import pytest

from rota.client import Client
from support.rotad import Refusal, Rotad

USERS_JOB = """{"name": "daily-report", "schedule": "0 0 * * *",
                "command": "python generate_report.py",
                "dependencies": ["job1", "job2"], "retries": 3, "timeout": 3600}"""


def refusal_of(node: Rotad, **body: Any) -> Refusal:
    with pytest.raises(Refusal) as raised:
        node.create(**body)
    return raised.value


def test_the_users_literal_bodies_work(node: Rotad) -> None:
    node.create(name="job1", command="true")
    node.create(name="job2", command="true")

    created = node.call("POST", "/api/v1/jobs", USERS_JOB.encode())
    read = node.call("GET", f"/api/v1/jobs/{created['jobId']}")
    triggered = node.call("POST", f"/api/v1/jobs/{created['jobId']}/trigger")

    assert created["status"] == "scheduled"
    assert read["jobId"] == created["jobId"]
    assert triggered["status"] == "queued"
    assert node.ended(triggered["executionId"])["status"] in ("failed", "success", "running")


def test_a_running_job_says_since_when_and_how_far(node: Rotad) -> None:
    tasks = [
        {"name": "first", "command": "true"},
        {"name": "second", "needs": ["first"], "command": "sleep 600"},
    ]
    job = node.create(name="half-way", tasks=tasks)
    execution_id = node.trigger("half-way")

    node.wait_until(lambda: node.call("GET", f"/api/v1/jobs/{job['jobId']}")["progress"] == 50)

    shown = node.call("GET", f"/api/v1/jobs/{job['jobId']}")
    assert shown["status"] == "running"
    assert shown["startedAt"]
    node.call("POST", f"/api/v1/executions/{execution_id}/cancel")
    assert node.ended(execution_id)["status"] == "cancelled"


@pytest.mark.parametrize(
    ("body", "pointer", "said"),
    [
        ({"comand": "true"}, "/comand", "did you mean 'command'?"),
        ({"command": 5}, "/command", "needs text or a list, not a whole number; put it in quotes"),
        ({"command": "true", "schedule": "61 * * * *"}, "/schedule", "minutes go from 0 to 59"),
        ({"command": "true", "schedule": "0 0 30 2 *"}, "/schedule", "never fires"),
        ({"command": "true", "schedule": "0 0 * * *", "timezone": "Europe/Berln"}, "/timezone",
         "did you mean Europe/Berlin"),
        ({"command": "true", "retries": -1}, "/retries", "give a value from 0 to 1000"),
        ({"command": "true", "timeout": "soon"}, "/timeout", "is not a duration"),
        ({"command": "true", "timeout": -1}, "/timeout", "no limit, to 365d"),
        ({"command": "true", "dependencies": ["absent"]}, "/dependencies/0",
         "the job 'default/absent' does not exist; create it first"),
        ({"tasks": [{"name": "a", "command": "true", "needs": ["b"]},
                    {"name": "b", "command": "true", "needs": ["a"]}]}, "/tasks/0/needs",
         "a -> b -> a"),
        ({"tasks": [{"name": "a", "command": "true", "needs": ["z"]}]}, "/tasks/0/needs/0",
         "task 'a' needs 'z', which is not a task of this job"),
        ({}, "/tasks", "the job needs a command, a type, a python function, a container or tasks"),
        ({"command": "true", "type": "scripted"}, "",
         "one of command, python, type, tasks and container"),
        ({"command": "true", "overlap": "allways"}, "/overlap",
         "'allways' is not one of allow, cancel_running, queue_all, queue_latest, queue_one, skip"),
        ({"command": "true", "retries": {"limit": 1, "backoff": "none"}}, "/retries/backoff",
         "'none' is not one of explicit, exponential, fixed"),
        ({"tasks": [{"name": "a", "command": "true", "need": ["b"]}]}, "/tasks/0/need",
         "did you mean 'needs'?"),
        ({"command": "true", "env": {"A": 1}}, "/env",
         "needs text, not a whole number; put it in quotes"),
        ({"command": "true", "priority": 101}, "/priority", "give a value from -100 to 100"),
        ({"command": "true", "env": {"A=B": "x"}}, "/env",
         "'A=B' cannot be an environment variable"),
        ({"command": "true", "env": {"ROTA_TOKEN": "x"}}, "/env", "begin with ROTA_ are reserved"),
        ({"command": "true", "stopGrace": "400d"}, "/stopGrace", "give a value from 0s to 365d"),
        ({"command": "true", "timezone": "Mars/X"}, "/timezone", "is not a time zone"),
        ({"command": "true", "schedules": [{"schedule": "@daily", "timezone": "Mars/X"}]},
         "/schedules/0/timezone", "is not a time zone"),
        ({"type": "scriptd"}, "/type", "no task type or job type 'scriptd'"),
        ({"tasks": [{"command": "true"}]}, "/tasks/0/name", "the required field is missing"),
        ({"command": "true", "cwd": "here"}, "/cwd", "is not an absolute path"),
        ({"command": "true", "sandbox": "tight"}, "/sandbox",
         "'tight' is not one of none, default, strict"),
        ({"command": "true", "sandbox": {"binds": ["/a:/b", "/c"]}}, "/sandbox/binds/1",
         "'/c' is not a bind; write /source:/target"),
        ({"command": "true", "sandbox": {"binds": ["a:/b"]}}, "/sandbox/binds/0",
         "'a' is not an absolute path"),
        ({"command": "true", "sandbox": {"binds": ["/a:/b", "//sys/../proc/1:/c"]}},
         "/sandbox/binds/1", "is never bound: it exposes the whole machine"),
        ({"command": "true", "sandbox": {"binds": ["/:/c"]}}, "/sandbox/binds/0", "never bound"),
        ({"container": {"image": "a", "binds": ["/run/docker.sock:/x"]}}, "/container/binds/0",
         "access to a container engine gives root rights"),
        ({"container": {"image": "a", "network": "container:b"}}, "/container/network",
         "would share the network of a container"),
        ({"command": "true", "sandbox": {"profile": "none", "network": False}}, "/sandbox",
         "have no effect with the profile 'none'"),
        ({"type": "scripted", "sandbox": "strict"}, "/sandbox", "cannot have a sandbox"),
        ({"command": "true", "limits": {"memory": "512M"}}, "/limits/memory", "is not a size"),
        ({"command": "true", "limits": {"memory": 1000}}, "/limits/memory", "from 1MiB to"),
        ({"command": "true", "limits": {"cpu": -1}}, "/limits/cpu", "from 0.01 to 1024"),
        ({"command": "true", "limits": {"pids": -1}}, "/limits/pids", "from 1 to 4194304"),
        ({"command": "true", "limits": {"cpu": 0}}, "/limits/cpu", "omit the field for no limit"),
        ({"command": "true", "limits": {"memory": "0MiB"}}, "/limits/memory",
         "omit the field for no limit"),
        ({"command": "true", "limits": {"pids": 0}}, "/limits/pids", "omit the field for no limit"),
        ({"type": "scripted", "limits": {"pids": 5}}, "/limits", "cannot have limits"),
        ({"command": "true", "nodeSelector": {"a b": "c"}}, "/nodeSelector",
         "not the name of a label"),
        ({"python": "report"}, "/python", "write package.module:function"),
        ({"python": {"function": "a:b", "args": "x"}}, "/python/args", "needs a list, not text"),
        ({"python": {"function": "a:b", "path": ["lib"]}}, "/python/path/0",
         "'lib' is not an absolute path"),
        ({"python": {"function": "a:b", "interpreter": "python3"}}, "/python/interpreter",
         "'python3' is not an absolute path"),
        ({"python": {"function": "a:b", "args": ["x" * 120_000]}}, "/python",
         "use at most 120,000"),
        ({"container": {"image": ""}}, "/container/image", "is not the name of an image"),
        ({"container": {"image": "a", "user": "a b"}}, "/container/user",
         "'a b' must not contain spaces"),
        ({"container": "a", "type": "scripted"}, "/container", "cannot have a container"),
        ({"type": "python"}, "/type", "use the field python instead"),
        ({"tasks": [{"name": "a", "command": "true", "python": "a:b"}]}, "/tasks/0/python",
         "the task has command and python; give one of"),
        ({"tasks": [{"name": "a"}]}, "/tasks/0/command", "a python function, a container or a"),
        ({"sandbox": {"binds": ["x"]}, "tasks": [{"name": "a", "command": "true"}]},
         "/sandbox/binds/0", "'x' is not a bind; write /source:/target"),
        ({"command": "true", "retries": {"limit": 1, "onExceptions": ["Key Error"]}},
         "/retries/onExceptions/0", "is not the name of an exception"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_with_the_field_and_the_reason(
    node: Rotad, body: Any, pointer: str, said: str
) -> None:
    refusal = refusal_of(node, name="bad", **body)

    assert refusal.status == 422
    assert refusal.headers["Content-Type"].startswith("application/problem+json")
    assert refusal.problem["requestId"]
    errors = {error["pointer"]: error["detail"] for error in refusal.problem["errors"]}
    assert said in errors[pointer]


def test_every_problem_of_a_job_is_reported_at_once(node: Rotad) -> None:
    refusal = refusal_of(
        node, name="no name", command="true", retries=-1, schedule="61 * * * *", timeout="x"
    )

    pointers = {error["pointer"] for error in refusal.problem["errors"]}
    assert pointers == {"/name", "/retries", "/schedule", "/timeout"}


def test_every_problem_of_a_sandbox_and_of_limits_is_reported_at_once(node: Rotad) -> None:
    refusal = refusal_of(
        node,
        name="confined",
        command="true",
        sandbox={"profile": "tight", "binds": ["/a", "b:/c"]},
        limits={"cpu": 0, "memory": "512M", "pids": -1},
    )

    errors = {error["pointer"]: error["detail"] for error in refusal.problem["errors"]}
    sandbox, limits = ({pointer for pointer in errors if at in pointer} for at in ("/s", "/l"))
    assert sandbox == {"/sandbox/profile", "/sandbox/binds/0", "/sandbox/binds/1"}
    assert limits == {"/limits/cpu", "/limits/memory", "/limits/pids"}
    assert errors["/sandbox/binds/1"].startswith("'b' is not an absolute path; give")


def test_a_body_that_is_not_json_is_a_bad_request(node: Rotad) -> None:
    with pytest.raises(Refusal) as raised:
        node.call("POST", "/api/v1/jobs", b'{"name":')

    assert raised.value.status == 400
    assert raised.value.problem["code"] == "malformed_json"


def test_a_body_of_five_megabytes_is_too_large(node: Rotad) -> None:
    with pytest.raises(Refusal) as raised:
        node.call("POST", "/api/v1/jobs", json.dumps({"name": "x" * 5_000_000}).encode())

    assert raised.value.status == 413


def test_another_media_type_is_refused(node: Rotad) -> None:
    with pytest.raises(Refusal) as raised:
        node.call("POST", "/api/v1/jobs", b"name: x", {"Content-Type": "application/yaml"})

    assert raised.value.status == 415


def test_unknown_paths_methods_and_parameters_are_refused(node: Rotad) -> None:
    for method, path, status in [
        ("GET", "/api/v2/jobs", 404),
        ("PUT", "/api/v1/jobs", 405),
        ("GET", "/api/v1/jobs?namspace=x", 422),
        ("GET", "/api/v1/jobs?limit=0", 422),
        ("GET", "/api/v1/jobs/absent", 404),
        ("GET", "/api/v1/executions/none", 404),
        ("GET", "/api/v1/executions?status=done", 422),
    ]:
        with pytest.raises(Refusal) as raised:
            node.call(method, path)
        assert raised.value.status == status, path


def test_the_same_job_again_is_the_same_job_and_another_is_a_conflict(node: Rotad) -> None:
    first = node.create(name="same", command="true")

    again = node.create(name="same", command="true")
    refusal = refusal_of(node, name="same", command="false")

    assert again["jobId"] == first["jobId"]
    assert refusal.status == 409
    assert refusal.problem["code"] == "job_exists"


def test_a_trigger_and_its_rerun_work_for_the_given_fire_time(node: Rotad) -> None:
    command = "echo $ROTA_FIRE_TIME $ROTA_INTERVAL_START $ROTA_INTERVAL_END"
    node.create(name="daily", command=command, schedule="0 1 * * *")
    body = {"fireTime": "2026-11-27T02:00:00+01:00"}

    begun = node.call("POST", "/api/v1/jobs/daily/trigger", body)["executionId"]
    ended = node.ended(begun)
    again = node.ended(node.call("POST", f"/api/v1/executions/{begun}/rerun")["executionId"])

    for each in (ended, again):
        path = f"/api/v1/executions/{each['executionId']}/tasks/main/output"
        first, last = "2026-11-26T01:00:00.000000Z", "2026-11-27T01:00:00.000000Z"
        assert node.call("GET", path) == f"{last} {first} {last}\n"
        assert each["fireTime"] == each["intervalEnd"] == last
        assert each["intervalStart"] == first
        assert each["latenessMs"] < 60_000
    with pytest.raises(Refusal, match="/fireTime"):
        node.call("POST", "/api/v1/jobs/daily/trigger", {"fireTime": "yesterday"})


def test_a_trigger_repeated_with_its_key_makes_one_execution(node: Rotad) -> None:
    node.create(name="once", type="scripted")
    key = {"Idempotency-Key": "k1"}

    first = node.call("POST", "/api/v1/jobs/once/trigger", {}, key)
    again = node.call("POST", "/api/v1/jobs/once/trigger", {}, key)
    with pytest.raises(Refusal) as other:
        node.call("POST", "/api/v1/jobs/once/trigger", {"parameters": 1}, key)

    assert first["executionId"] == again["executionId"]
    assert other.value.problem["code"] == "idempotency_key_reused"


def test_a_command_that_is_not_there_fails_with_a_clear_reason(node: Rotad) -> None:
    execution = node.run(name="nowhere", command=["no-such-program", "x"])

    attempt = execution["tasks"]["main"]["attempts"][0]
    assert execution["status"] == "failed"
    assert attempt["outcome"] == "failed"
    assert "there is no program 'no-such-program' in PATH" in attempt["reason"]


def test_output_is_kept_and_the_tail_of_a_gigabyte_too(node: Rotad) -> None:
    command = "head -c 1000000000 /dev/zero | tr '\\0' x; echo; echo the end"
    execution = node.run(name="loud", command=command)

    output = node.call("GET", f"/api/v1/executions/{execution['executionId']}/tasks/main/output")

    assert execution["status"] == "success"
    assert output.startswith("xxxx")
    assert len(output) < 11 << 20
    assert "output cut here" in output[-200:]
    attempt = execution["tasks"]["main"]["attempts"][0]
    assert attempt["outputBytes"] == 1_000_000_009
    assert attempt["outputTail"].endswith("x\nthe end\n")


def test_a_task_that_ignores_term_is_killed_after_its_grace(node: Rotad) -> None:
    command = "trap '' TERM; while :; do sleep 0.05; done"
    execution = node.run(name="stubborn", command=command, timeout="0.2s", stopGrace="0.3s")

    attempt = execution["tasks"]["main"]["attempts"][0]
    assert attempt["outcome"] == "timed_out"
    assert attempt["signal"] == 9


def test_a_job_fails_twice_and_then_succeeds(node: Rotad) -> None:
    retries = {"limit": 5, "backoff": "fixed", "delay": "10ms"}
    execution = node.run(name="flaky", command='test "$ROTA_ATTEMPT" -ge 3', retries=retries)

    outcomes = [each["outcome"] for each in execution["tasks"]["main"]["attempts"]]
    assert outcomes == ["failed", "failed", "success"]
    tokens = [each["token"] for each in execution["tasks"]["main"]["attempts"]]
    assert tokens == sorted(set(tokens))


def test_a_job_runs_after_each_of_its_dependencies_succeeded(node: Rotad) -> None:
    node.create(name="left", type="scripted")
    node.create(name="right", type="scripted")
    after = node.create(name="after-both", type="scripted", dependencies=["left", "right"])
    listed = f"/api/v1/executions?jobId={after['jobId']}"

    node.ended(node.trigger("left"))
    assert node.call("GET", listed)["items"] == []
    node.ended(node.trigger("right"))

    node.wait_until(lambda: len(node.call("GET", listed)["items"]) == 1)
    assert node.call("GET", listed)["items"][0]["trigger"] == "dependencies"


def test_pages_of_executions_hold_each_one_once(node: Rotad) -> None:
    job = node.create(name="paged", type="scripted")
    made = {node.trigger("paged") for _ in range(25)}
    for execution_id in made:
        node.ended(execution_id)

    for query in (f"jobId={job['jobId']}", "from=2020-01-01T00:00:00Z"):
        seen: list[str] = []
        cursor = ""
        while True:
            page = node.call("GET", f"/api/v1/executions?limit=10&{query}{cursor}")
            seen += [each["executionId"] for each in page["items"]]
            if not page["nextCursor"]:
                break
            cursor = f"&cursor={page['nextCursor']}"
        assert made <= set(seen)
        assert len(seen) == len(set(seen))


def test_a_deleted_job_is_gone_and_its_history_stays(node: Rotad) -> None:
    job = node.create(name="short-lived", type="scripted")
    execution_id = node.trigger("short-lived")
    node.ended(execution_id)

    node.call("DELETE", f"/api/v1/jobs/{job['jobId']}")

    with pytest.raises(Refusal, match="job_not_found"):
        node.call("GET", "/api/v1/jobs/short-lived")
    assert node.call("GET", f"/api/v1/executions/{execution_id}")["status"] == "success"


def test_parameters_of_the_trigger_stand_before_the_jobs_and_those_before_the_tasks(
    node: Rotad,
) -> None:
    show = 'printf %s "$ROTA_PARAMETERS"'
    tasks = [{"name": "a", "command": show, "parameters": {"of": "task"}}]
    node.create(name="own", tasks=tasks)
    node.create(name="shared", tasks=tasks, parameters={"of": "job"})

    said = [
        node.ended(node.call("POST", f"/api/v1/jobs/{job}/trigger", body)["executionId"])
        for job, body in (("own", None), ("shared", None), ("shared", {"parameters": {"of": "me"}}))
    ]

    tails = [json.loads(each["tasks"]["a"]["attempts"][0]["outputTail"])["of"] for each in said]
    assert tails == ["task", "job", "me"]


def test_metrics_and_version_are_served(node: Rotad) -> None:
    node.run(name="measured", type="scripted")

    metrics = node.call("GET", "/metrics")

    assert 'rota_executions_total{status="success"}' in metrics
    assert "rota_ready 1.0" in metrics
    assert node.call("GET", "/version")["shards"] == 256
    assert node.call("GET", "/livez") == "ok\n"


def test_listening_beyond_loopback_needs_the_word_insecure(tmp_path: Path) -> None:
    with Rotad(tmp_path / "data", "--listen", "0.0.0.0:0") as rotad:
        rotad.spawn()

        assert rotad.exit_status() == 64
        assert "any user of these machines can run commands here" in rotad.log()


def test_every_invalid_setting_is_reported_at_once(tmp_path: Path) -> None:
    file = tmp_path / "rota.toml"
    file.write_text('data_dri = "x"\nslots = 0\n')
    with Rotad(tmp_path / "data", "--config", str(file), "--shards", "7") as rotad:
        rotad.spawn()

        assert rotad.exit_status() == 64
        assert "data_dri: no such setting; did you mean data_dir?" in rotad.log()
        assert "slots: 0 is out of range" in rotad.log()
        assert "7 is not a power of two" in rotad.log()


def test_a_trace_goes_from_the_request_to_the_program(node: Rotad) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    node.create(name="traced", command="echo $TRACEPARENT")
    path, items = "/api/v1/jobs/traced/trigger", {"items": [{"job": "traced"}]}

    one = node.call("POST", path, {}, {"traceparent": trace})
    [many] = node.call("POST", "/api/v1/executions:batch", items, {"traceparent": trace})["items"]
    malformed = node.call("POST", path, {}, {"traceparent": trace[:-1]})

    seen = [node.ended(each["executionId"]) for each in (one, many, malformed)]
    assert [each["traceparent"] for each in seen] == [trace, trace, ""]
    outputs = [each["tasks"]["main"]["attempts"][0]["outputTail"] for each in seen]
    assert outputs == [f"{trace}\n", f"{trace}\n", "\n"]


def test_tasks_of_a_past_execution_come_as_they_are_defined(node: Rotad) -> None:
    names = ["z", "b", "m", "a"]

    execution = node.run(name="ordered", tasks=[{"name": n, "type": "scripted"} for n in names])

    assert list(execution["tasks"]) == names


def test_a_job_keeps_its_priority(node: Rotad) -> None:
    made = node.create(name="first", type="scripted", priority=-100)

    assert made["priority"] == made["definition"]["priority"] == -100


def test_a_job_shows_how_far_its_execution_is(node: Rotad, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    node.create(
        name="half-done",
        command=f"echo 50 > $ROTA_PROGRESS; until test -e {gate}; do sleep 0.05; done",
    )
    with Client(node.url) as client:
        events = client.events(job="default/half-done", types=["task.progress"])
        assert next(events).type == "stream.opened"
        execution_id = node.trigger("half-done")

        event = next(events)
        events.close()

    job = node.call("GET", "/api/v1/jobs/half-done")
    execution = node.call("GET", f"/api/v1/executions/{execution_id}")
    gate.touch()
    assert (event.execution_id, event.task, event.attempt) == (execution_id, "main", 1)
    assert (event.status, event.progress, event.detail) == ("running", 50, "50%")
    assert (job["status"], job["progress"]) == ("running", 50)
    assert (execution["progress"], execution["tasks"]["main"]["progress"]) == (50, 50)
    assert node.ended(execution_id)["progress"] == 100


def test_what_a_job_runs_in_comes_back_as_it_was_given(node: Rotad) -> None:
    given = {
        "python": {"function": "shop.forecast:run", "args": [1]},
        "limits": {"cpu": 0.5, "memory": "512MiB"},
        "nodeSelector": {"disk": "ssd"},
    }

    job = node.create(name="confined", **given)

    assert job["definition"] == {"name": "confined", **given}
    assert (job["tasks"][0]["type"], job["tasks"][0]["python"]) == ("python", "shop.forecast:run")


def test_a_saved_job_answers_with_its_next_fire_times(node: Rotad) -> None:
    saved = node.create(name="nightly", command="true", schedule="0 1 * * *")

    again = node.call("GET", "/api/v1/jobs/nightly")

    assert len(saved["nextFires"]) == 5
    assert saved["nextFires"][0]["at"] == saved["nextFireAt"]
    assert again["nextFires"] == saved["nextFires"]
