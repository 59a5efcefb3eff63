"""A stored job goes back to a body that defines the very same job."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.client.wire import JobBody, RetryBody, ScheduleBody, TaskBody
from rota.node.api.bodies import job_spec
from rota.node.api.definitions import definition_of

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
        backoff=st.sampled_from(["exponential", "fixed", "explicit"]),
        delay=TIMESPANS,
        factor=st.sampled_from([1.0, 1.5, 2.0]),
        max_delay=st.sampled_from(["5m", 10]),
        delays=st.lists(TIMESPANS, min_size=1, max_size=3),
        jitter=st.sampled_from([0.0, 0.25]),
        on_exit_codes=st.lists(st.integers(0, 255), max_size=2),
        never_on_exit_codes=st.lists(st.integers(0, 255), max_size=2),
    ),
)
SCHEDULES = st.lists(
    st.one_of(
        st.sampled_from(["*/5 * * * *", "@every 10s", "@daily"]),
        st.builds(
            ScheduleBody,
            schedule=st.sampled_from(["0 0 1 * MON", "@hourly"]),
            timezone=st.sampled_from([None, "Europe/Berlin"]),
            day_or=st.booleans(),
        ),
    ),
    max_size=3,
)


Fields = dict[str, object]


def job_body(work: Fields, rest: Fields) -> JobBody:
    return msgspec.convert(msgspec.to_builtins({"name": "job", **work, **rest}), JobBody)


def task_bodies(name: str) -> st.SearchStrategy[TaskBody]:
    def task_body(work: Fields, rest: Fields) -> TaskBody:
        return msgspec.convert(msgspec.to_builtins({"name": name, **work, **rest}), TaskBody)

    works: list[Fields] = [{"command": "true"}, {"command": ["a"]}, {"type": "scripted"}]
    return st.builds(
        task_body,
        st.sampled_from(works),
        st.fixed_dictionaries(
            {},
            optional={
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


WORK = st.one_of(
    st.fixed_dictionaries({"command": COMMANDS}),
    st.fixed_dictionaries({"type": st.just("scripted")}),
    st.fixed_dictionaries({"tasks": st.lists(task_bodies("main"), min_size=1, max_size=1)}),
    st.fixed_dictionaries({"tasks": st.tuples(task_bodies("a"), task_bodies("b")).map(list)}),
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
