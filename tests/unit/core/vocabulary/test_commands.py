"""Size limits of commands, so that one entry can hold them."""

import pytest

from rota.core.model.attempt import AttemptKey, Ending, Outcome, Report, Token
from rota.core.model.ids import Epoch, ExecutionId, Index, JobId
from rota.core.model.job import JobSpec, TaskSpec
from rota.core.model.work import Work
from rota.core.timing.instants import Instant
from rota.core.vocabulary.commands import (
    Command,
    FinishAttempt,
    Idempotency,
    ReportAttempt,
    SaveJob,
    StartTask,
    Trigger,
    payload_bytes,
)

LONG = 100_000
KEY = AttemptKey(ExecutionId("e"), "main", 1)
TOKEN = Token(Epoch(1), Index(1))
ENDING = Ending(
    outcome=Outcome.SUCCEEDED,
    started_at=Instant(1),
    finished_at=Instant(2),
    result=b"1" * LONG,
    output=b"x" * LONG,
)
TASK = TaskSpec(name="main", work=Work(stdin="x" * LONG))


@pytest.mark.parametrize(
    ("command", "at_least"),
    [
        (FinishAttempt(attempt=KEY, token=TOKEN, ending=ENDING), 2 * LONG),
        (ReportAttempt(attempt=KEY, token=TOKEN, report=Report(checkpoint=b"x" * LONG)), LONG),
        (Trigger(job_id=JobId("j"), parameters="1" * LONG), LONG),
        (SaveJob(spec=JobSpec(name="job", tasks=(TASK,))), LONG),
        (StartTask(execution_id=KEY.execution_id, task="main"), 0),
    ],
    ids=["result and output", "checkpoint", "parameters", "definition", "nothing of one's own"],
)
def test_what_is_long_of_a_command_is_counted(command: Command, at_least: int) -> None:
    assert at_least <= payload_bytes(command) <= at_least + 1_000


def test_a_key_and_its_caller_have_a_text_that_no_other_pair_has() -> None:
    pairs = [("a", "b/c"), ("a/b", "c"), ("a%2Fb", "c")]

    texts = [Idempotency(key=key, digest="", caller=caller).scoped_key for caller, key in pairs]

    assert len({*texts}) == len(pairs)
    assert texts[0] == "a/b/c"
