"""A stored job goes back to a body that defines the very same job."""

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.core.model.job import JobSpec
from rota.core.model.work import Bind, ResourceLimits, Sandbox
from rota.node.api.documents.job_definitions import definition_of
from rota.wire.bodies.job_bodies import job_spec
from rota.wire.documents import (
    CaseBody,
    ContainerBody,
    JobBody,
    LimitsBody,
    PythonBody,
    RetryBody,
    SandboxBody,
    ScheduleBody,
    TaskBody,
)

Strategy = st.SearchStrategy[Any]  # Any: fields of all kinds.

NAMES = st.sampled_from(["a", "b", "c", "d"])
TIMESPANS = st.sampled_from([0, 1, 2.5, "90s", "1h30m", "250ms"])
COMMANDS = st.sampled_from(["echo hello", ["echo", "a b"], "true"])
ENVIRONMENTS = st.dictionaries(st.sampled_from(["A", "B"]), st.text("xyz", max_size=3), max_size=2)
PARAMETERS = st.sampled_from([None, {"x": [1, "two"]}, 5, {"outcome": "succeeded"}])
RETRIES = st.one_of(
    st.integers(0, 5),
    st.builds(
        RetryBody,
        limit=st.integers(0, 5),
        backoff=st.sampled_from(["exponential", "linear", "fixed", "explicit"]),
        delay=TIMESPANS,
        factor=st.sampled_from([1.0, 1.5, 2.0]),
        max_delay=st.sampled_from(["5m", 10]),
        delays=st.lists(TIMESPANS, min_size=1, max_size=3),
        jitter=st.sampled_from([0.0, 0.25]),
        on_exceptions=st.lists(st.sampled_from(["OSError", "a.B"]), max_size=2),
        never_on_exceptions=st.lists(st.just("KeyError"), max_size=1),
        on_causes=st.lists(st.just("timeout"), max_size=1),
        never_on_causes=st.lists(st.just("SIGKILL"), max_size=1),
        max_elapsed=st.sampled_from([0, "1m"]),
        on_exit_codes=st.lists(st.integers(0, 255), max_size=2),
        never_on_exit_codes=st.lists(st.integers(0, 255), max_size=2),
    ),
)
BINDS = st.lists(
    st.sampled_from(["/a:/b", "/a:/b:ro", "/c:/d:rw"]),
    max_size=2,
    unique_by=lambda bind: bind.split(":")[1],
)
CONFINED: dict[str, Strategy] = {
    "sandbox": st.one_of(
        st.sampled_from(["none", "default", "strict"]),
        st.builds(
            SandboxBody,
            profile=st.sampled_from(["default", "strict"]),
            network=st.booleans(),
            binds=BINDS,
        ),
    ),
    "limits": st.builds(
        LimitsBody,
        cpu=st.sampled_from([None, 0.5, 2]),
        memory=st.sampled_from([None, 1 << 20, 1_048_577, "512MiB", "2GB"]),
        pids=st.sampled_from([None, 1]),
    ),
}
CONTAINERS: Strategy = st.one_of(
    st.just("alpine:3.20"),
    st.builds(
        ContainerBody,
        image=st.just("alpine"),
        pull=st.sampled_from(["missing", "never"]),
        network=st.sampled_from(["", "none"]),
        binds=BINDS,
        user=st.sampled_from(["", "1000:1000"]),
    ),
)
FUNCTIONS: Strategy = st.one_of(
    st.just("a.b:c"),
    st.builds(
        PythonBody,
        function=st.just("a:b.c"),
        args=st.lists(st.integers(), max_size=2),
        kwargs=st.dictionaries(st.just("day"), st.text("xyz"), max_size=1),
        interpreter=st.sampled_from(["", "/usr/bin/python3"]),
        path=st.lists(st.just("/srv"), max_size=1),
    ),
)
SCHEDULES = st.lists(
    st.one_of(
        st.sampled_from(["*/5 * * * *", "@every 10s", "@daily", "H * * * *"]),
        st.builds(
            ScheduleBody,
            schedule=st.sampled_from(["0 0 1 * MON", "@hourly"]),
            timezone=st.sampled_from([None, "Europe/Berlin"]),
            day_or=st.booleans(),
        ),
        st.builds(
            ScheduleBody,
            schedule=st.sampled_from(["@weekly", "@hourly"]),
            spread=st.booleans(),
            start_at=st.sampled_from([None, "2027-01-01T00:00"]),
            end_at=st.sampled_from([None, "2028-01-01T00:00:00Z"]),
        ),
        st.builds(
            ScheduleBody,
            schedule=st.just("0 9 * * MON"),
            start_at=st.just("2027-01-01T00:00"),
            every=st.sampled_from([None, "2 weeks", "3 months"]),
            gap=st.sampled_from(["shift", "skip"]),
            fold=st.sampled_from(["first", "last", "both"]),
        ),
    ),
    max_size=3,
)


WAYS: Strategy = st.one_of(
    st.fixed_dictionaries({"command": COMMANDS}, optional=CONFINED),
    st.fixed_dictionaries({"python": FUNCTIONS}, optional={"limits": CONFINED["limits"]}),
    st.fixed_dictionaries(
        {"container": CONTAINERS}, optional={"command": COMMANDS, "limits": CONFINED["limits"]}
    ),
    st.just({"type": "scripted"}),
)

Fields = dict[str, object]


def job_body(work: Fields, rest: Fields) -> JobBody:
    return msgspec.convert(msgspec.to_builtins({"name": "job", **work, **rest}), JobBody)


WAITS: Strategy = st.sampled_from(
    [
        {"sleep": "1m30s"},
        {"sleep": {"until": "params.at"}},
        {"approval": "all well?"},
        {"approval": {"form": {"type": "object"}, "timeout": "1h", "onReject": "skip"}},
    ]
)
FLOWS: dict[str, Strategy] = {
    "when": st.sampled_from(["params.x > 1", "states|length == 0"]),
    "skipExitCodes": st.sampled_from([[99], [1, 2]]),
    "handlesFailure": st.booleans(),
    "foreach": st.sampled_from(
        [
            "results",
            [1, {"a": None}],
            {"matrix": {"os": ["a", "b"], "version": "results"}},
            {"items": [], "maxParallel": 3, "onEmpty": "success"},
        ]
    ),
}


def task_bodies(name: str) -> st.SearchStrategy[TaskBody]:
    def task_body(work: Fields, rest: Fields) -> TaskBody:
        return msgspec.convert(msgspec.to_builtins({"name": name, **work, **rest}), TaskBody)

    return st.builds(
        task_body,
        st.one_of(WAYS, WAITS),
        st.fixed_dictionaries(
            {},
            optional={
                **FLOWS,
                "parameters": PARAMETERS,
                "env": ENVIRONMENTS,
                "cwd": st.just("/tmp"),
                "stdin": st.just("in"),
                "retries": RETRIES,
                "timeout": TIMESPANS,
                "stopGrace": TIMESPANS,
            },
        ),
    )


WORK: Strategy = st.one_of(
    WAYS,
    st.fixed_dictionaries({"tasks": st.lists(task_bodies("main"), min_size=1, max_size=1)}),
    st.fixed_dictionaries(
        {"tasks": st.tuples(task_bodies("a"), task_bodies("b")).map(list)},
        optional=CONFINED,
    ),
)
BODIES = st.builds(
    job_body,
    WORK,
    st.fixed_dictionaries(
        {},
        optional={
            "namespace": st.just("team"),
            "description": st.just("what it is for"),
            "schedules": SCHEDULES,
            "timezone": st.just("Asia/Tokyo"),
            "parameters": PARAMETERS,
            "dependencies": st.just(["other", "elsewhere/job"]),
            "retries": RETRIES,
            "timeout": TIMESPANS,
            "stopGrace": TIMESPANS,
            "misfire": st.sampled_from(["all", "latest", "skip"]),
            "grace": TIMESPANS,
            "overlap": st.sampled_from(["allow", "skip", "queue_one"]),
            "priority": st.integers(-100, 100),
            "env": ENVIRONMENTS,
            "cwd": st.just("/"),
            "stdin": st.just("x"),
            "labels": st.dictionaries(NAMES, st.text("xyz"), max_size=2),
        },
    ),
)


@settings(max_examples=300, deadline=None)
@given(BODIES)
def test_a_definition_defines_the_same_job(body: JobBody) -> None:
    spec = job_spec(body)

    sent = msgspec.json.encode(definition_of(spec))

    assert job_spec(msgspec.json.decode(sent, type=JobBody)) == spec


@settings(max_examples=100, deadline=None)
@given(BODIES)
def test_a_definition_is_its_own_definition(body: JobBody) -> None:
    definition = definition_of(job_spec(body))

    assert definition_of(job_spec(definition)) == definition


def test_a_plain_job_stays_plain() -> None:
    body = JobBody(name="job", command="echo hello", schedule="*/5 * * * *", retries=3)

    definition = definition_of(job_spec(body))

    assert definition.command == "echo hello"
    assert definition.schedule == "*/5 * * * *"
    assert definition.retries == 3
    assert definition.tasks == []
    assert set(msgspec.to_builtins(definition)) == {
        "name",
        "command",
        "schedule",
        "retries",
    }


def test_what_a_job_says_is_for_the_tasks_that_it_makes_sense_for() -> None:
    body = JobBody(
        name="job",
        sandbox="strict",
        container="alpine",
        limits=LimitsBody(cpu=0.5),
        tasks=[
            TaskBody(name="command", command="true"),
            TaskBody(name="bare", command="true", container=""),
            TaskBody(name="function", python="a:b"),
            TaskBody(name="other", type="scripted"),
        ],
    )

    wiring = {task.name: task.work for task in job_spec(body).tasks}

    assert {name: work.executor for name, work in wiring.items()} == {
        "command": "container",
        "bare": "process",
        "function": "python",
        "other": "scripted",
    }
    assert [name for name, work in wiring.items() if work.image] == ["command"]
    assert [name for name, work in wiring.items() if work.sandbox != Sandbox()] == ["bare"]
    assert [name for name, work in wiring.items() if work.limits != ResourceLimits()] == [
        "command",
        "bare",
        "function",
    ]


def test_a_bind_is_read_only_unless_it_says_otherwise() -> None:
    sandbox = SandboxBody(binds=["/a:/b", "/c:/d:rw"])

    spec = job_spec(JobBody(name="job", command="true", sandbox=sandbox))

    assert spec.tasks[0].work.sandbox.binds == (Bind("/a", "/b"), Bind("/c", "/d", True))


def test_the_shortest_form_of_the_work_is_shown() -> None:
    spec = job_spec(
        JobBody(
            name="job", container=ContainerBody(image="alpine"), limits=LimitsBody(memory=1024**2)
        )
    )

    definition = msgspec.to_builtins(definition_of(spec))

    assert definition == {"name": "job", "container": "alpine", "limits": {"memory": "1MiB"}}


def test_switches_teardowns_and_fields_of_flows_of_a_job_are_defined_again() -> None:
    fields: Fields = {
        "name": "job",
        "failFast": True,
        "parameters": {"x": 1},
        "parametersSchema": {"properties": {"x": {"type": "integer"}}},
        "tasks": [
            {"name": "pick", "switch": [{"when": "params.x > 1", "to": ["go"]}, {"to": []}]},
            {"name": "go", "needs": ["pick"], "command": "true"},
            {"name": "end", "needs": ["go"], "command": "true", "teardown": True},
        ],
    }
    spec = job_spec(msgspec.convert(fields, JobBody))

    definition = definition_of(spec)

    assert job_spec(definition) == spec
    assert (definition.fail_fast, definition.parameters_schema) == (
        True,
        fields["parametersSchema"],
    )
    assert definition.tasks[0].switch == [CaseBody("params.x > 1", ["go"]), CaseBody()]
    assert [each.teardown for each in definition.tasks] == [False, False, True]


def test_a_job_that_was_stored_has_the_same_text_as_one_that_was_sent() -> None:
    """Otherwise a comparison of both, as in `rota plan`, shows changes that are none."""
    body = JobBody(name="a", command="true", retries=RetryBody(limit=3, delay="1s"))
    sent = job_spec(body)
    stored = msgspec.msgpack.decode(msgspec.msgpack.encode(sent), type=JobSpec)

    texts = [msgspec.json.encode(definition_of(each)) for each in (sent, stored)]

    assert texts[0] == texts[1]


def test_tasks_have_what_differs_from_the_defaults_alone() -> None:
    tasks: list[dict[str, Any]] = [
        {"name": "a", "command": "true"},
        {"name": "b", "needs": ["a"], "command": "true", "cwd": "/tmp", "timeout": "5s"},
    ]
    spec = job_spec(msgspec.convert({"name": "flow", "tasks": tasks}, JobBody))

    definition = definition_of(spec)

    shown = [msgspec.to_builtins(each) for each in definition.tasks]
    assert shown == tasks
    assert job_spec(definition) == spec
