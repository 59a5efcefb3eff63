"""Documents of executions for callers that may not see what attempts wrote."""

from rota.core.model.attempt import Attempt, Ending, Outcome, Token
from rota.core.model.execution import Execution, ExecutionStatus, Origin, Task, TaskStatus
from rota.core.model.ids import Epoch, ExecutionId, Index, JobId, NodeId, Session
from rota.core.timing.instants import Instant
from rota.node.api.documents.omitted_output import without_output
from rota.node.api.documents.record_views import execution_view

AT = Instant(1_800_000_000_000_000)
ENDING = Ending(
    outcome=Outcome.FAILED,
    started_at=AT,
    finished_at=AT,
    exit_code=3,
    reason="exited with code 3; its last progress is not a percentage: 'private'",
    output=b"private\n",
    left_running="2 processes that it left running were killed: private, sleep",
)
TASK = Task(
    name="main",
    status=TaskStatus.FAILED,
    attempts=(
        Attempt(
            number=1,
            token=Token(Epoch(1), Index(1)),
            node_id=NodeId("a"),
            session=Session("s"),
            placed_at=AT,
            ending=ENDING,
        ),
    ),
    reason="ValueError: private",
)
EXECUTION = Execution(
    id=ExecutionId("3f2a9c0011223344-0660c1a4f8fe40-0000"),
    job_id=JobId("3f2a9c0011223344"),
    job_name="default/a",
    job_version=1,
    status=ExecutionStatus.FAILED,
    origin=Origin.MANUAL,
    fire_at=AT,
    queued_at=AT,
    open_count=0,
    reason="task main failed: ValueError: private",
)


def test_nothing_that_a_program_chose_is_shown() -> None:
    whole = execution_view(EXECUTION, {"main": TASK})

    shown = without_output(whole)

    assert str(whole).count("private") == 5
    assert "private" not in str(shown)
    assert shown.tasks is not None
    [attempt] = shown.tasks["main"].attempts
    assert attempt.left_running == "2 processes that it left running were killed"
    assert attempt.reason == "exited with code 3; its last progress is not a percentage"
