"""Causes of what happened, or will happen, at a time."""

from typing import Any

import pytest
from msgspec.structs import replace

from rota.core.timing.instants import format_instant
from rota.core.timing.schedule import Schedule
from rota.node.api.documents.causes import Known, causes_of
from rota.wire.documents import JobView, NextFireView, ScheduleView
from unit.client.audit.test_comparison import entry, execution
from unit.core.shard import at

JOB = JobView(
    job_id="j",
    name="report",
    namespace="shop",
    status="scheduled",
    version=2,
    description="",
    schedules=[ScheduleView(schedule="@hourly", timezone="UTC")],
    tasks=[],
    dependencies=[],
    misfire="latest",
    grace="10s",
    overlap="skip",
    labels={},
    created_at=format_instant(at("08:00")),
    updated_at=format_instant(at("09:00")),
)
HOURLY = Schedule(text="@hourly", timezone="UTC")
NOW = at("14:00")


def fire(text: str, excluded: str = "") -> NextFireView:
    """Return a future fire time."""
    return NextFireView(at=format_instant(at(text)), local="", schedule=0, excluded=excluded)


def known(text: str, job: JobView = JOB, **fields: Any) -> Known:
    """Return what is known about a time of the day of the tests."""
    given: dict[str, Any] = {"schedules": (HOURLY,) if job.schedules else (), **fields}
    return Known(job=job, at=at(text), now=NOW, **given)


def limited(**limits: str) -> tuple[Schedule, ...]:
    """Return the schedules of the job with limits."""
    return (replace(HOURLY, **limits),)


def failed(text: str) -> Any:
    """Return a failed execution."""
    return replace(execution(f"x-{text}"), status="failed", reason="task main failed", tasks={})


UNTIL_15 = format_instant(at("15:00"))
OWN_OVERLAP = "x had not finished; the overlap policy is queue_one"
WINDOW = "noticed 90 s late; the misfire window is 1m"
PAUSED = replace(JOB, paused_at=format_instant(at("13:00")), paused_by="ada", pause_reason="move")


@pytest.mark.parametrize(
    ("given", "codes", "part"),
    [
        (known("07:00"), ["not_yet_created"], "the job was created at 2027-01-04T08:00"),
        (
            known("12:00", replace(JOB, schedules=[])),
            ["no_schedule"],
            "rota jobs set shop/report 'schedule",
        ),
        (
            known("12:00", replace(JOB, schedules=[], events=["sold", "lost"])),
            ["no_schedule"],
            "no schedule; events start it: sold, lost",
        ),
        (
            known("12:20", before=entry("12:00"), after=fire("13:00")),
            ["no_fire_time"],
            "rota explain shop/report --at 2027-01-04T12:00",
        ),
        (known("12:50", later=entry("13:00")), ["no_fire_time"], "the next one is 2027-01-04T13"),
        (known("12:00", after=fire("12:00")), ["no_outcome"], "rota audit shop/report"),
        (
            known("12:00", after=fire("12:00"), version=(1, at("08:00"))),
            ["version", "no_fire_time"],
            "version 1 was in use; the present one is 2",
        ),
        (
            known("08:30", after=fire("08:30")),
            ["version", "no_fire_time"],
            "an earlier version was in use; the present one, 2, is of 2027-01-04T09:00",
        ),
        (
            known("12:00", entries=[entry("12:00")], executions=[failed("12:00")]),
            ["fired", "execution_failed"],
            "rota rerun x-12:00",
        ),
        (
            known(
                "12:00",
                entries=[entry("12:00", outcome="skipped", execution_id="x-11:00", reason="busy")],
                executions=[replace(execution("x-11:00"), status="running")],
            ),
            ["overlap", "other_execution"],
            "rota jobs set shop/report overlap=queue_all",
        ),
        (
            known("12:00", entries=[entry("12:00", outcome="skipped", reason=OWN_OVERLAP)]),
            ["overlap"],
            "change the overlap of schedule 0",
        ),
        (
            known("12:00", entries=[entry("12:00", outcome="skipped", reason="quota_exceeded: 5")]),
            ["quota"],
            "rota namespace quota shop",
        ),
        (
            known(
                "12:00",
                entries=[
                    entry(
                        "12:00",
                        outcome="skipped",
                        reason="x still waits for the jobs that it depends on",
                    )
                ],
            ),
            ["dependencies"],
            "run the jobs that shop/report depends on",
        ),
        (
            known("12:00", entries=[entry("12:00", outcome="missed", reason="noticed 31 s late")]),
            ["late"],
            "misfire=latest",
        ),
        (
            known("12:00", entries=[entry("12:00", outcome="missed", reason="disk_full: n1")]),
            ["disk_full"],
            "free space",
        ),
        (
            known("12:00", entries=[entry("11:00", "13:00", 3, outcome="coalesced")]),
            ["coalesced"],
            "with 3 fire times from 2027-01-04T11:00",
        ),
        (
            known("12:00", entries=[entry("12:00", outcome="paused", reason="paused by ada")]),
            ["paused"],
            "rota jobs resume shop/report",
        ),
        (
            known("12:00", entries=[entry("12:00", outcome="excluded", reason="in calendar x")]),
            ["excluded"],
            "in calendar x",
        ),
        (
            known("07:00", entries=[entry("07:00", outcome="missed", reason="late")]),
            ["late"],
            "late",
        ),
        (known("15:00", after=fire("15:00")), ["will_fire"], "rota jobs pause shop/report"),
        (known("15:00", PAUSED, after=fire("15:00")), ["paused"], "paused by ada: move"),
        (
            known("15:00", replace(PAUSED, paused_until=UNTIL_15), after=fire("15:00")),
            ["will_fire"],
            "it is a fire time of schedule 0",
        ),
        (
            known("14:59", replace(PAUSED, paused_until=UNTIL_15), after=fire("14:59")),
            ["paused"],
            f"paused by ada until {UNTIL_15}: move",
        ),
        (
            known("15:00", after=replace(fire("15:00"), starts_at=UNTIL_15)),
            ["will_fire"],
            f"schedule 0, and starts at {UNTIL_15}",
        ),
        (
            known("13:00", after=replace(fire("13:00"), starts_at=UNTIL_15)),
            ["deferred"],
            "rota trigger shop/report --fire-time 2027-01-04T13:00",
        ),
        (
            known("13:00", after=replace(fire("13:00"), starts_at=format_instant(at("13:30")))),
            ["no_outcome"],
            "rota audit shop/report",
        ),
        (known("15:00", ended={0: 3}), ["ended"], "begun its 3 executions (maxExecutions)"),
        (known("15:30", ended={0: 3}), ["no_fire_time"], "no schedule fires at this time"),
        (
            known("12:00", entries=[entry("12:00", outcome="missed", reason=WINDOW)]),
            ["late"],
            "rota jobs set shop/report misfireWindow=0",
        ),
        (
            known("12:00", entries=[entry("12:00", outcome="missed", reason="(misfireMax)")]),
            ["late"],
            "rota jobs set shop/report misfireMax=0",
        ),
        (
            known("15:00", after=fire("15:00", "the calendar x excludes it")),
            ["excluded"],
            "the calendar x excludes it",
        ),
        (
            known("15:00", after=fire("15:00", "blackout: the calendar x excludes it")),
            ["excluded"],
            "change the times or blackoutOf of the calendar",
        ),
        (
            known(
                "12:00",
                entries=[entry("12:00", outcome="excluded", reason="blackout: calendar x")],
            ),
            ["excluded"],
            "rota trigger shop/report --fire-time 2027-01-04T12:00",
        ),
        (
            known(
                "07:00",
                fills=[replace(execution("x-07:00"), trigger="backfill", status="success")],
            ),
            ["not_yet_created", "backfill"],
            "a backfill ran this fire time: execution x-07:00 is success",
        ),
        (
            known(
                "12:00",
                entries=[entry("12:00", execution_id="x-12:00")],
                executions=[replace(execution("x-12:00"), tasks={})],
                fills=[
                    execution("x-12:00"),
                    replace(execution("x-12:30"), trigger="manual", status="failed"),
                ],
            ),
            ["fired", "execution_success", "other_trigger"],
            "rota rerun x-12:30",
        ),
        (
            known("15:00", schedules=limited(end_at="2027-01-04T13:30:00Z"), before=entry("13:00")),
            ["ended"],
            "schedule 0 has no fire time then: it ended at 2027-01-04T13:30:00Z (endAt)",
        ),
        (
            known("12:00", schedules=limited(start_at="2027-01-05T00:00:00Z")),
            ["not_begun"],
            "begins at 2027-01-05T00:00:00Z (startAt)",
        ),
        (
            known("15:20", schedules=limited(end_at="2027-01-04T13:30:00Z"), before=entry("13:00")),
            ["no_fire_time"],
            "--at 2027-01-04T13:00",
        ),
        (known("15:20", after=fire("16:00")), ["no_fire_time"], "the next one is 2027-01-04T16"),
        (known("15:20"), ["no_fire_time"], "no schedule fires at this time"),
    ],
)
def test_a_time_has_its_causes(given: Known, codes: list[str], part: str) -> None:
    causes = causes_of(given)

    assert [each.code for each in causes] == codes
    assert any(part in f"{each.cause} {each.change}" for each in causes)
