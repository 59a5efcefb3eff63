"""Decoding of a long job in steps."""

from collections.abc import Callable, Generator

import msgspec
import pytest

from rota.core.errors import Refused
from rota.core.model.job import TASKS_MAX
from rota.node.api.requests import job_decoding
from rota.node.api.requests.job_decoding import AT_ONCE_BYTES, decoded_job, decoded_object
from rota.wire.bodies.job_bodies import finished
from rota.wire.bodies.json_decoding import PROBLEMS_MAX, decode
from rota.wire.documents import JobBody, Json

PADDING = "x" * AT_ONCE_BYTES
"""Makes a job long."""


def job_of(tasks: Json, **fields: Json) -> bytes:
    return msgspec.json.encode({"name": "job", "tasks": tasks, "stdin": PADDING, **fields})


TASKS = [
    {"name": "a", "command": "echo ', ] }'"},
    {"name": "b", "command": ["true", '\\"]'], "needs": ["a"], "env": {"K": "\u00e9"}},
]
SPACED = b'{"name": "job", "stdin": "%s", "tasks" : [ {"name":"a"} ,\n{"name": "b"}\t] }' % (
    PADDING.encode()
)


@pytest.mark.parametrize(
    "content", [job_of(TASKS), job_of([]), SPACED], ids=["tasks", "none", "spaces"]
)
def test_a_long_job_decoded_in_steps_is_the_same(content: bytes) -> None:
    assert finished(decoded_job(content)) == decode(content, JobBody)
    assert finished(decoded_object(content)) == decode(content, dict[str, Json])


@pytest.mark.parametrize("decoded", [decoded_job, decoded_object])
@pytest.mark.parametrize(
    ("content", "pointer"),
    [
        (b'{"name": "a", "name": "b"}', "/name"),
        (b'{"name": "a", "n\\u0061me": "b"}', "/name"),
        (b'{"name": "a", "env": {"x/y": "1", "z": "1", "x/y": "2"}}', "/env/x~1y"),
        (b'{"name": "a", "tasks": [{"name": "b"}, {"name": "c", "name": "d"}]}', "/tasks/1/name"),
    ],
)
@pytest.mark.parametrize("padding", ["", PADDING], ids=["short", "long"])
def test_a_key_that_an_object_has_twice_is_refused(
    decoded: Callable[[bytes], Generator[None, None, object]],
    content: bytes,
    pointer: str,
    padding: str,
) -> None:
    last = b'{"name": "last", "stdin": "%s"}]}' % padding.encode()
    body = (
        content[:-2] + b", " + last
        if b"tasks" in content
        else content[:-1] + b', "tasks": [' + last
    )

    with pytest.raises(Refused, match="there is a second") as caught:
        finished(decoded(body))

    assert [each.pointer for each in caught.value.problems] == [pointer]


@pytest.mark.parametrize("decoded", [decoded_job, decoded_object])
def test_there_is_a_pause_for_each_task_of_a_long_job(
    decoded: Callable[[bytes], Generator[None, None, object]],
) -> None:
    pauses = sum(1 for _ in decoded(job_of(TASKS * 50)))

    assert pauses >= 2 * len(TASKS * 50)


@pytest.mark.parametrize("decoded", [decoded_job, decoded_object])
def test_a_job_with_too_many_tasks_is_refused_before_any_of_them_is_decoded(
    decoded: Callable[[bytes], Generator[None, None, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds: list[object] = []

    def watched(content: bytes | msgspec.Raw, kind: type[object], place: str = "") -> object:
        kinds.append((kind, place))
        return decode(content, kind, place)

    monkeypatch.setattr(job_decoding, "decode", watched)
    tasks = [{"name": f"t{number}"} for number in range(TASKS_MAX + 1)]

    with pytest.raises(Refused, match=f"more than {TASKS_MAX:,} tasks, the limit") as refusal:
        finished(decoded(msgspec.json.encode({"tasks": tasks})))

    assert refusal.value.code == "invalid_job"
    assert kinds == [(dict[str, msgspec.Raw], "")]


@pytest.mark.parametrize(
    ("content", "pointer"),
    [
        (job_of([*TASKS, {"name": "c", "needs": [1]}]), "/tasks/2/needs/0"),
        (job_of([*TASKS, 7]), "/tasks/2"),
        (job_of(TASKS, nmae="job"), "/nmae"),
        (job_of("all"), "/tasks"),
        (job_of(None), "/tasks"),
    ],
)
def test_a_mistake_in_a_long_job_is_pointed_at_as_in_a_short_one(
    content: bytes, pointer: str
) -> None:
    with pytest.raises(Refused) as found:
        finished(decoded_job(content))
    with pytest.raises(Refused) as whole:
        decode(content, JobBody)

    assert [each.pointer for each in found.value.problems] == [pointer]
    assert (found.value.code, str(found.value)) == (whole.value.code, str(whole.value))


def test_the_mistakes_of_all_tasks_of_a_long_job_are_listed_up_to_a_limit() -> None:
    few = [{"name": 1}, {"name": "a"}, {"name": "b", "comand": "x"}]

    with pytest.raises(Refused) as found:
        finished(decoded_job(job_of(few)))
    with pytest.raises(Refused) as many:
        finished(decoded_job(job_of([{"name": 1}] * 2 * PROBLEMS_MAX)))

    pointers = [each.pointer for each in found.value.problems]
    assert pointers == ["/tasks/0/name", "/tasks/2/comand"]
    assert len(many.value.problems) == PROBLEMS_MAX + 1
    assert many.value.problems[-1].pointer == ""


@pytest.mark.parametrize(
    "tasks",
    [b"[" * 100_000 + b"]" * 100_000, b"[{\xff}]", b'["\xff"]', b"[1 2]", b"[01]", b"[,]", b"[{]}"],
    ids=["deep", "bytes", "text", "comma", "number", "nothing", "brackets"],
)
def test_tasks_that_are_no_json_are_refused(tasks: bytes) -> None:
    content = b'{"name": "job", "stdin": "%s", "tasks": %s}' % (PADDING.encode(), tasks)

    with pytest.raises(Refused) as refusal:
        finished(decoded_job(content))

    assert refusal.value.code in ("malformed_json", "invalid_body")
