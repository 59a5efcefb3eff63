"""Verdicts of the judge on runs with and without violations."""

import ast
import copy
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import chaos.judge
from chaos.example_run import Run, clean, row, stands_in, text
from chaos.judge.figures import figures, table
from chaos.judge.records import read
from chaos.judge.verdict import judge


def test_a_run_without_violations_is_accepted(tmp_path: Path) -> None:
    records = read(clean().write(tmp_path))

    assert judge(records) == []


def test_figures_contain_lateness_and_counts(tmp_path: Path) -> None:
    result = figures(read(clean().write(tmp_path)))

    assert result["lateness_ms"]["no fault"]["count"] == 7
    assert result["counts"]["fires"] == {"fired": 21, "missed": 2, "paused": 3}
    assert result["counts"]["stood in"] == {"for a primary": 1, "possible duplicates": 1}
    assert "kill-host" in table(result)


def test_the_outage_of_killed_shards_is_separate_from_that_of_other_shards(tmp_path: Path) -> None:
    run = clean()
    run.add(
        "configurations.jsonl", shard=1, revision=3, value={"epoch": 1, "primary": "n2", "sync": []}
    )
    run.one("faults.jsonl", kind="kill-host", event="begin")["revision"] = 1
    run.documents["ledger.jsonl"] = []
    for job_id, late in (("0000aa", 0.9), ("ffff00", 0.02)):
        run.execution(f"{job_id}-1", 110.7 + late, "success", trigger="schedule")
        fired = row("fired", 110.7, recorded=110.7 + late - 0.01, execution=f"{job_id}-1")
        run.add("ledger.jsonl", **{**fired, "jobId": job_id})
    run.add("ledger.jsonl", **{**row("missed", 111.1, 113.1, recorded=113.6), "jobId": "0000bb"})

    found = figures(read(run.write(tmp_path)))["outages_ms"]["kill-host"]

    assert found["of its shards"]["started"] == {
        "count": 1,
        "p50": 900.0,
        "p99": 900.0,
        "max": 900.0,
    }
    assert found["of its shards"]["decided"]["max"] == 2_500.0
    assert found["of others"]["started"]["max"] == 20.0


# -- runs with a violation -----------------------------------------------------------------------

Alter = Callable[[Run], object]


def acknowledged_job_is_gone(run: Run) -> None:
    run.drop("jobs.jsonl", jobId="asked")
    run.documents["executions.jsonl"] = run.all("executions.jsonl", jobId="tick")
    run.documents["clients.jsonl"] = [
        each for each in run.documents["clients.jsonl"] if each["what"] not in ("trigger", "see")
    ]
    run.said = [line for line in run.said if line.startswith("tick")]


def failed_job_is_there(run: Run) -> None:
    ended = run.one("clients.jsonl", op=1, event="ok")
    ended.update(event="fail", answer={"code": "busy"})


def acknowledged_trigger_is_gone(run: Run) -> None:
    run.drop("executions.jsonl", executionId="asked-1")
    run.said = [line for line in run.said if not line.startswith("asked-1")]


def trigger_made_two(run: Run) -> None:
    twin = copy.deepcopy(run.one("executions.jsonl", executionId="asked-1"))
    run.add("executions.jsonl", **{**twin, "executionId": "asked-7", "tasks": {}})


def failed_trigger_made_one(run: Run) -> None:
    ended = run.one("clients.jsonl", op=10, event="ok")
    ended.update(event="fail", answer={"code": "busy"})


def trigger_without_request(run: Run) -> None:
    run.one("executions.jsonl", executionId="asked-1")["traceparent"] = "trace-9"
    ended = run.one("clients.jsonl", op=10, event="ok")
    ended.update(event="info", answer={"code": "unreachable"})


def end_is_undone(run: Run) -> None:
    run.one("clients.jsonl", op=12, event="ok")["answer"]["status"] = "cancelled"


def never_ended(run: Run) -> None:
    run.one("executions.jsonl", executionId="asked-1")["status"] = "running"


def ended_otherwise(run: Run) -> None:
    run.one("executions.jsonl", executionId="asked-1")["status"] = "failed"


def started_after_cancel(run: Run) -> None:
    run.operation(30, "cancel", 104.2, {"execution": "asked-1"}, attempts={"main": 1})


def fire_without_outcome(run: Run) -> None:
    run.drop("ledger.jsonl", executionId="tick-106")
    run.drop("executions.jsonl", executionId="tick-106")
    run.said = [line for line in run.said if not line.startswith("tick-106")]


def fire_with_two_outcomes(run: Run) -> None:
    run.add("ledger.jsonl", **row("missed", 106, recorded=120.0))


def fire_between_fire_times(run: Run) -> None:
    run.one("ledger.jsonl", executionId="tick-106")["fireTime"] = text(106.5)


def fired_without_row(run: Run) -> None:
    run.execution("tick-121", 121.0, "success", trigger="schedule")


def two_executions_of_one_fire(run: Run) -> None:
    run.execution("tick-106-b", 106.0, "success", trigger="schedule")
    run.said = run.said[:-2]


def missed_in_time(run: Run) -> None:
    run.one("ledger.jsonl", outcome="missed")["recordedAt"] = text(112.5)


def missed_for_a_disk_that_was_not_full(run: Run) -> None:
    run.one("ledger.jsonl", outcome="missed")["reason"] = "disk_full: the disk of node n1 has"


def coalesced_by_skip(run: Run) -> None:
    run.one("ledger.jsonl", outcome="missed")["outcome"] = "coalesced"


def paused_without_request(run: Run) -> None:
    run.one("ledger.jsonl", outcome="missed")["outcome"] = "paused"


def skipped_for_nothing(run: Run) -> None:
    run.one("ledger.jsonl", outcome="missed").update(outcome="skipped", executionId="tick-118")


def decided_too_early(run: Run) -> None:
    run.one("ledger.jsonl", executionId="tick-106")["recordedAt"] = text(105.9)


def missed_ahead(run: Run) -> None:
    run.one("ledger.jsonl", outcome="missed")["recordedAt"] = text(111.98)


def started_too_early(run: Run) -> None:
    run.said = [line.replace(" 106.0 start", " 105.3 start") for line in run.said]


def ran_and_is_not_on_record(run: Run) -> None:
    run.say("tick-999", 1, "f" * 32, 119.0, "start")


def attempt_is_not_on_record(run: Run) -> None:
    run.say("tick-118", 2, "f" * 32, 119.0, "start")


def succeeded_without_a_word(run: Run) -> None:
    run.said = [line for line in run.said if not line.startswith("tick-118")]


def ended_twice(run: Run) -> None:
    run.said.append(run.said[-1])


def retried_after_success(run: Run) -> None:
    attempts = run.one("executions.jsonl", executionId="asked-1")["tasks"]["main"]["attempts"]
    attempts[0]["outcome"] = "success"


def lost_without_cause(run: Run) -> None:
    for line in run.documents["faults.jsonl"]:
        line["hosts"] = ["n3"]


def lost_without_a_word_or_cause(run: Run) -> None:
    lost_without_cause(run)
    run.said = [line for line in run.said if not line.startswith("asked-2 main 1")]


def lost_by_a_machine_that_stood_still(run: Run) -> None:
    lost_without_cause(run)
    run.add("stalls.jsonl", at=109.0, took=20.0)


def fenced_without_cause(run: Run) -> None:
    lost_without_cause(run)
    attempts = run.one("executions.jsonl", executionId="asked-2")["tasks"]["main"]["attempts"]
    attempts[0]["outcome"] = "cancelled"


def lost_though_its_warden_lived(run: Run) -> None:
    for line in run.documents["faults.jsonl"]:
        line["kind"] = "kill"


def attempts_overlap(run: Run) -> None:
    ticking = run.said.index(next(line for line in run.said if line.startswith("asked-2 main 2")))
    run.said.insert(ticking + 1, run.said[ticking].replace("main 2", "main 1"))
    run.said[ticking + 1] = run.said[ticking + 1].replace("start", "tick")


def executions_overlap(run: Run) -> None:
    started = next(place for place, line in enumerate(run.said) if line.startswith("tick-116"))
    run.said.insert(started + 1, "tick-114 main 1 x n1 116.1 tick")


def token_shrinks(run: Run) -> None:
    attempts = run.one("executions.jsonl", executionId="asked-1")["tasks"]["main"]["attempts"]
    attempts[1]["token"] = "0" * 32
    run.said = [
        " ".join([*line.split()[:3], "0" * 32, *line.split()[4:]])
        if line.startswith("asked-1 main 2")
        else line
        for line in run.said
    ]


def number_is_left_out(run: Run) -> None:
    attempts = run.one("executions.jsonl", executionId="asked-1")["tasks"]["main"]["attempts"]
    attempts[1]["number"] = 3
    run.said = [line.replace("asked-1 main 2", "asked-1 main 3") for line in run.said]


def task_before_the_one_it_needs(run: Run) -> None:
    begun = run.one("clients.jsonl", op=1, event="invoke")
    begun["asked"]["job"]["tasks"] = [
        {"name": "first", "command": "say"},
        {"name": "main", "command": "say", "needs": ["first"]},
    ]


def stale_read(run: Run) -> None:
    run.one("clients.jsonl", op=14, event="ok")["answer"]["value"] = "0"


def lost_write(run: Run) -> None:
    run.one("clients.jsonl", op=14, event="ok").update(
        event="fail", answer={"code": "job_not_found"}
    )


def epoch_is_left_out(run: Run) -> None:
    run.documents["configurations.jsonl"][1]["value"]["epoch"] = 3


def generation_begins_though_etcd_kept_all(run: Run) -> None:
    etcd_is_set_back_and_recovered(run)
    run.documents["restores.jsonl"].clear()


def generation_begins_twice_after_one_restore(run: Run) -> None:
    etcd_is_set_back_and_recovered(run)
    sync = [["n1", "c1"], ["n2", "c2"]]
    value = {"epoch": (2 << 40) + 1, "primary": "n2", "sync": sync}
    run.add("configurations.jsonl", shard=0, revision=5, value=value)


def epoch_is_left_out_after_a_restore(run: Run) -> None:
    unaware_node_changes_what_etcd_was_left_with(run)
    run.one("restores.jsonl")["epochs"] = {"0": 2}


def primary_does_not_count(run: Run) -> None:
    run.documents["configurations.jsonl"][1]["value"]["primary"] = "n3"


def copy_is_named_twice(run: Run) -> None:
    run.documents["configurations.jsonl"][1]["value"]["sync"] = [["n1", "c1"], ["n2", "c1"]]


def too_few_copies(run: Run) -> None:
    run.documents["configurations.jsonl"][1]["value"]["sync"] = [["n2", "c2"]]


def copies_differ(run: Run) -> None:
    run.documents["replicas.jsonl"][1]["tables"] = {"1": "1 rows"}


def copy_is_gone(run: Run) -> None:
    run.drop("replicas.jsonl", node="n1")


def never_well_again(run: Run) -> None:
    run.documents["end.json"][0]["trouble"] = "a shard is not open"


def process_is_left(run: Run) -> None:
    run.documents["end.json"][0]["processes"] = ["17 python: say.py"]


def two_jobs_of_one_name(run: Run) -> None:
    run.add("jobs.jsonl", jobId="twin", name="asked", createdAt=text(100.3))


def one_key_with_two_answers(run: Run) -> None:
    asked = {"job": "asked", "key": "key-1", "trace": "trace-1"}
    run.operation(32, "trigger", 104.5, asked, execution="asked-9")


def seen_and_gone(run: Run) -> None:
    run.operation(33, "see", 112.0, {"execution": "asked-8"}, status="success")


def started_twice(run: Run) -> None:
    first = next(place for place, line in enumerate(run.said) if line.startswith("asked-2 main 1"))
    run.said.insert(first, run.said[first])


def token_of_a_start_shrinks(run: Run) -> None:
    token_shrinks(run)


def token_of_the_next_execution_shrinks(run: Run) -> None:
    execution = run.one("executions.jsonl", executionId="tick-116")
    token = execution["tasks"]["main"]["attempts"][0]["token"]
    execution["tasks"]["main"]["attempts"][0]["token"] = "0" * 32
    run.said = [line.replace(token, "0" * 32) for line in run.said]


def fired_without_schedule(run: Run) -> None:
    run.execution("asked-3", 118.5, "success", trigger="schedule")


def fired_for_a_job_that_is_not_there(run: Run) -> None:
    run.execution("ghost-1", 118.5, "success", trigger="schedule")


def fired_before_it_was_made(run: Run) -> None:
    run.execution("tick-100", 100.0, "success", trigger="schedule")
    run.add("ledger.jsonl", **row("fired", 100, execution="tick-100"))


def skipped_without_a_blocking_execution(run: Run) -> None:
    run.one("ledger.jsonl", outcome="missed")["outcome"] = "skipped"


def fired_and_not_there(run: Run) -> None:
    run.drop("executions.jsonl", executionId="tick-106")


def fired_twice(run: Run) -> None:
    run.add("ledger.jsonl", **row("fired", 106, execution="tick-106"))


def sink_accepts_what_was_overtaken(run: Run) -> None:
    run.write_to_sink(105.3, "asked-1", 1, "0" * 31 + "1")


def sink_refuses_what_succeeded(run: Run) -> None:
    run.one("sink.jsonl", attempt=2)["accepted"] = False


def fired_while_it_was_paused(run: Run) -> None:
    run.documents["ledger.jsonl"].remove(run.one("ledger.jsonl", jobId="raced", outcome="paused"))
    for at in (102, 104, 106):
        run.execution(f"raced-{at}", float(at), "success", trigger="schedule")
        run.add("ledger.jsonl", **row("fired", at, job="raced", execution=f"raced-{at}"))


def paused_while_it_was_not(run: Run) -> None:
    run.drop("executions.jsonl", executionId="raced-112")
    run.said = [line for line in run.said if not line.startswith("raced-112")]
    run.one("ledger.jsonl", executionId="raced-112").update(outcome="paused", executionId=None)


def run_of_a_stand_in_is_not_on_record(run: Run) -> None:
    run.one("executions.jsonl", executionId="0000open-140")["possibleDuplicates"] = []


def stood_in_and_did_something_else(run: Run) -> None:
    doubles = run.one("executions.jsonl", executionId="0000open-140")["possibleDuplicates"]
    doubles[0]["tasks"]["main"]["attempts"][0]["outcome"] = "failed"
    run.said = [line for line in run.said if "0000open-140 main 1000001" not in line]


def stood_in_for_a_strict_job(run: Run) -> None:
    stands_in(run, "tick-118", 118.2)


def no_stand_in_fired(run: Run) -> None:
    run_of_a_stand_in_is_not_on_record(run)
    run.said = [line for line in run.said if "1000001" not in line]
    run.drop("executions.jsonl", executionId="0000open-142")
    run.execution("0000open-142", 142.0, "success", trigger="schedule")


def node_ended(run: Run) -> None:
    run.documents["end.json"][0]["ended"] = [{"at": 110.5, "node": "n1", "status": 74}]


def node_crashed(run: Run) -> None:
    disk_was_full(run)
    run.documents["end.json"][0]["ended"][0]["status"] = 70


VIOLATIONS: dict[Alter, tuple[str, str]] = {
    acknowledged_job_is_gone: ("C1", "asked was made"),
    failed_job_is_there: ("C2", "making asked failed"),
    acknowledged_trigger_is_gone: ("C1", "key-1 made"),
    trigger_made_two: ("C2", "key-1 made 2"),
    failed_trigger_made_one: ("C2", "key-1 failed"),
    trigger_without_request: ("C2", "no client requested"),
    end_is_undone: ("I14", "was cancelled"),
    never_ended: ("L1", "is running"),
    ended_otherwise: ("C4", "could only succeed"),
    started_after_cancel: ("I13", "after its execution was cancelled"),
    fire_without_outcome: ("C3", "no outcome for 1"),
    fire_with_two_outcomes: ("C3", "several outcomes"),
    fire_between_fire_times: ("C3", "speaks of 0 fire times"),
    fired_without_row: ("C3", "no row of the ledger"),
    two_executions_of_one_fire: ("C3", "two executions"),
    missed_in_time: ("C8", "it was not late"),
    missed_for_a_disk_that_was_not_full: ("C8", "the disk was not full"),
    coalesced_by_skip: ("C8", "its policy allows"),
    paused_without_request: ("C8", "its policy allows"),
    skipped_for_nothing: ("C8", "was not in the way"),
    decided_too_early: ("C3", "decided before it was due"),
    missed_ahead: ("C3", "decided before it was due"),
    started_too_early: ("C3", "before it was due"),
    ran_and_is_not_on_record: ("C4", "is not on record"),
    attempt_is_not_on_record: ("C4", "ran, and on record is"),
    succeeded_without_a_word: ("C4", "said []"),
    ended_twice: ("C4", "'end', 'end'"),
    retried_after_success: ("C4", "tried again after the outcome success"),
    lost_without_cause: ("C4", "ran, and is lost; to its node: []"),
    lost_by_a_machine_that_stood_still: ("C4", "ran, and is lost; to its node: ['stall']"),
    fenced_without_cause: ("C4", "ran, and is cancelled; to its node: []"),
    lost_without_a_word_or_cause: ("C4", "never ran, and is lost; to its node: []"),
    lost_though_its_warden_lived: ("C4", "ran, and is lost; to its node: ['kill']"),
    attempts_overlap: ("C5", "another attempt ran"),
    executions_overlap: ("C5", "another execution ran"),
    token_shrinks: ("C6", "tokens"),
    number_is_left_out: ("I9", "attempts [1, 3]"),
    task_before_the_one_it_needs: ("I13", "needs first"),
    stale_read: ("I15", "could be ['1']"),
    lost_write: ("I15", "could be ['1']"),
    epoch_is_left_out: ("I6", "epoch 3 after 1"),
    generation_begins_though_etcd_kept_all: ("I6", "after 2"),
    generation_begins_twice_after_one_restore: ("I6", f"epoch {(2 << 40) + 1} after"),
    epoch_is_left_out_after_a_restore: ("I6", "epoch 2 after 2"),
    primary_does_not_count: ("I6", "does not count"),
    copy_is_named_twice: ("I6", "copy c1"),
    too_few_copies: ("I6", "fewer than 2"),
    copies_differ: ("I3", "differs"),
    copy_is_gone: ("I3", "not on the disk of n1"),
    never_well_again: ("L1", "not well"),
    process_is_left: ("C9", "left over"),
    sink_accepts_what_was_overtaken: ("C6", "the sink accepted"),
    sink_refuses_what_succeeded: ("C6", "which succeeded"),
    fired_while_it_was_paused: ("C8", "was paused, and fired"),
    paused_while_it_was_not: ("C8", "was not paused, and paused"),
    run_of_a_stand_in_is_not_on_record: ("C10", "ran, and is not on record"),
    stood_in_and_did_something_else: ("C4", "said []"),
    stood_in_for_a_strict_job: ("C10", "of a strict job"),
    no_stand_in_fired: ("C10", "did not fire on n2, which was isolated for 15.0 s"),
    node_ended: ("L2", "ended by itself"),
    node_crashed: ("L2", "ended by itself"),
    two_jobs_of_one_name: ("C2", "2 jobs are named asked"),
    one_key_with_two_answers: ("C2", "key-1 was answered with"),
    seen_and_gone: ("C1", "asked-8 was seen, and is gone"),
    started_twice: ("C4", "attempt 1 said ['start', 'start']"),
    token_of_a_start_shrinks: ("C6", "started after"),
    token_of_the_next_execution_shrinks: ("C6", "started after"),
    fired_without_schedule: ("C3", "asked has no schedule, and fired"),
    fired_for_a_job_that_is_not_there: ("C3", "of a job that is not there"),
    fired_before_it_was_made: ("C3", "and fired at"),
    skipped_without_a_blocking_execution: ("C8", "nothing was in the way"),
    fired_and_not_there: ("C3", "has no such execution"),
    fired_twice: ("C3", "tick-106 was fired 2 times"),
}


@pytest.mark.parametrize("alter", VIOLATIONS, ids=lambda alter: alter.__name__)
def test_an_altered_run_is_rejected_by_the_right_rule(alter: Alter, tmp_path: Path) -> None:
    rule, words = VIOLATIONS[alter]
    run = clean()
    alter(run)

    found = judge(read(run.write(tmp_path)))

    assert [each for each in found if each.rule == rule and words in each.text], found


# -- what is allowed -----------------------------------------------------------------------------


def fired_a_little_ahead(run: Run) -> None:
    run.one("ledger.jsonl", executionId="tick-106")["recordedAt"] = text(105.98)


def missed_while_the_disk_was_full(run: Run) -> None:
    run.fault("disk-full", "n1", begins=109.0, ends=113.0)
    missed = run.one("ledger.jsonl", outcome="missed")
    missed.update(recordedAt=text(112.0), reason="disk_full: the disk of node n1 has")


def unknown_trigger_was_done(run: Run) -> None:
    run.one("clients.jsonl", op=10, event="ok").update(event="info", answer={"code": "unreachable"})


def unknown_trigger_was_not_done(run: Run) -> None:
    unknown_trigger_was_done(run)
    acknowledged_trigger_is_gone(run)


def unknown_write_takes_effect_late(run: Run) -> None:
    run.one("clients.jsonl", op=13, event="ok").update(event="info", answer={"code": "unreachable"})
    run.operation(31, "put", 105.5, {"register": "r", "value": "2"})
    documents = run.documents["clients.jsonl"]
    documents.sort(key=lambda each: each["at"])


def unfenced_attempts_overlap(run: Run) -> None:
    attempts_overlap(run)
    run.fault("pause-both", "n1", begins=110.0, ends=113.0)


def given_up_with_its_shard(run: Run) -> None:
    lost_without_a_word_or_cause(run)
    attempts = run.one("executions.jsonl", executionId="asked-2")["tasks"]["main"]["attempts"]
    token = f"{1:016x}{1:016x}"
    run.said = [line.replace(attempts[1]["token"], token) for line in run.said]
    attempts[1]["token"] = token


def away_for_longer_than_its_lease(run: Run) -> None:
    lost_though_its_warden_lived(run)
    attempts = run.one("executions.jsonl", executionId="asked-2")["tasks"]["main"]["attempts"]
    attempts[0]["finishedAt"] = text(125.5)


def was_about_to_start_when_it_was_cancelled(run: Run) -> None:
    run.operation(30, "cancel", 104.2, {"execution": "asked-1"}, attempts={"main": 2})


def records_of_a_stand_in_were_lost_with_its_disk(run: Run) -> None:
    run_of_a_stand_in_is_not_on_record(run)
    run.fault("wipe", "n2", begins=146.0, ends=147.0)


def no_stand_in_fired_without_a_counted_copy(run: Run) -> None:
    run.documents["configurations.jsonl"][0]["value"]["sync"] = [["n1", "c1"], ["n3", "c3"]]
    run.documents["configurations.jsonl"][0]["value"]["primary"] = "n1"
    no_stand_in_fired(run)


def disk_was_full(run: Run) -> None:
    node_ended(run)
    run.fault("disk-full", "n1", begins=110.0, ends=110.2)


def etcd_is_set_back_and_recovered(run: Run) -> None:
    run.add("restores.jsonl", revision=3, epochs={"0": 1})
    value = {"epoch": (1 << 40) + 1, "primary": "n2", "sync": [["n1", "c1"], ["n2", "c2"]]}
    run.add("configurations.jsonl", shard=0, revision=4, value=value)


def unaware_node_changes_what_etcd_was_left_with(run: Run) -> None:
    run.add("restores.jsonl", revision=2, epochs={"0": 1})
    value = {"epoch": 2, "primary": "n1", "sync": [["n1", "c1"], ["n2", "c2"]]}
    run.add("configurations.jsonl", shard=0, revision=3, value=value)


def never_began_on_a_machine_that_stood_still(run: Run) -> None:
    lost_without_a_word_or_cause(run)
    run.add("stalls.jsonl", at=109.0, took=2.0)


@pytest.mark.parametrize(
    "alter",
    [
        was_about_to_start_when_it_was_cancelled,
        records_of_a_stand_in_were_lost_with_its_disk,
        no_stand_in_fired_without_a_counted_copy,
        disk_was_full,
        etcd_is_set_back_and_recovered,
        unaware_node_changes_what_etcd_was_left_with,
        never_began_on_a_machine_that_stood_still,
        given_up_with_its_shard,
        away_for_longer_than_its_lease,
        fired_a_little_ahead,
        missed_while_the_disk_was_full,
        unknown_trigger_was_done,
        unknown_trigger_was_not_done,
        unknown_write_takes_effect_late,
        unfenced_attempts_overlap,
    ],
    ids=lambda alter: alter.__name__,
)
def test_what_is_allowed_is_accepted(alter: Alter, tmp_path: Path) -> None:
    run = clean()
    alter(run)

    found = judge(read(run.write(tmp_path)))

    assert found == []


# -- independence --------------------------------------------------------------------------------


def test_the_judge_imports_nothing_of_rota() -> None:
    [folder] = chaos.judge.__path__

    imported = {name for path in Path(folder).glob("*.py") for name in imports(path)}

    own = {name for name in imported if name.split(".")[0] == "chaos"}
    assert all(name.startswith("chaos.judge") for name in own), own
    assert not {name.split(".")[0] for name in imported} & {
        "rota", "support", "core", "node", "client", "ring", "storage", "executor",
    }  # fmt: skip


def imports(path: Path) -> Iterator[str]:
    for each in ast.walk(ast.parse(path.read_text())):
        if isinstance(each, ast.Import):
            yield from (alias.name for alias in each.names)
        elif isinstance(each, ast.ImportFrom):
            assert each.module
            assert not each.level
            yield each.module
