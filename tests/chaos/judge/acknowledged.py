"""C1, C2: effects of acknowledged operations exist, those of failed ones do not; of others, either.

Also I13 and I14, as far as clients can observe them: an end that a client saw is final, and after
an acknowledged cancel no attempt starts but those that were on record as started by then.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

from chaos.judge.records import Execution, Operation, Records, Violation

FINAL = ("success", "failed", "cancelled")


def violations(records: Records) -> Iterator[Violation]:
    """Yield where the records contradict the answers to clients."""
    yield from _jobs(records)
    yield from _triggers(records)
    yield from _ends(records)
    yield from _cancels(records)


def _jobs(records: Records) -> Iterator[Violation]:
    there: dict[str, list[str]] = defaultdict(list)
    for job_id, job in records.jobs.items():
        there[job["name"]].append(job_id)
    for each in records.asked("create"):
        name = each.asked["job"]["name"]
        ids = there[name]
        if len(ids) > 1:
            yield Violation("C2", f"{len(ids)} jobs are named {name}: {ids}")
        if each.outcome == "ok" and ids != [each.answer["id"]]:
            yield Violation("C1", f"{name} was made as {each.answer['id']}, and there is {ids}")
        if each.outcome == "fail" and ids:
            yield Violation("C2", f"making {name} failed ({each.answer}), and there is {ids}")


def _triggers(records: Records) -> Iterator[Violation]:
    made: dict[str, list[Execution]] = defaultdict(list)
    for execution in records.executions.values():
        if execution.trigger == "manual":
            made[execution.trace].append(execution)
    asked: dict[str, list[Operation]] = defaultdict(list)
    for each in records.asked("trigger"):
        asked[each.asked["trace"]].append(each)
    for trace, operations in asked.items():
        ids = [execution.id for execution in made.pop(trace, [])]
        key = operations[0].asked["key"]
        answered = {each.answer["execution"] for each in operations if each.outcome == "ok"}
        if len(ids) > 1:
            yield Violation("C2", f"{key} made {len(ids)} executions: {ids}")
        if len(answered) > 1:
            yield Violation("C2", f"{key} was answered with {sorted(answered)}")
        if missing := answered - set(ids):
            text = f"{key} made {sorted(missing)}, and there is {ids}"
            yield Violation("C1", text, operations[-1].ended_at)
        if ids and all(each.outcome == "fail" for each in operations):
            yield Violation("C2", f"{key} failed ({operations[-1].answer}), and there is {ids}")
    for trace, executions in made.items():
        yield Violation("C2", f"no client requested {[each.id for each in executions]} ({trace})")


def _ends(records: Records) -> Iterator[Violation]:
    for each in records.asked("see"):
        status = each.answer.get("status")
        execution = records.executions.get(each.asked["execution"])
        if each.outcome == "ok" and execution is None:
            yield Violation("C1", f"{each.asked['execution']} was seen, and is gone")
        elif each.outcome == "ok" and execution is not None and status != execution.status:
            yield Violation("I14", f"{execution.id} was {status}, and is {execution.status}")
    cancels = Counter(each.asked["execution"] for each in records.asked("cancel"))
    for execution in records.executions.values():
        if execution.status not in FINAL:
            yield Violation("L1", f"{execution.id} is {execution.status} when all is over")
        elif execution.status == "failed" or (
            execution.status == "cancelled" and not cancels[execution.id]
        ):
            outcomes = {
                name: [each.outcome for each in tries] for name, tries in execution.tasks.items()
            }
            yield Violation(
                "C4", f"{execution.id} is {execution.status}, and could only succeed: {outcomes}"
            )


def _cancels(records: Records) -> Iterator[Violation]:
    done = (each for each in records.asked("cancel") if each.outcome == "ok")
    latest_first = sorted(done, key=lambda each: each.ended_at, reverse=True)
    cancels = {each.asked["execution"]: each for each in latest_first}  # The first of each stays.
    for line in records.lines:
        cancel = cancels.get(line.execution)
        if cancel is None or line.word != "start" or line.at <= cancel.ended_at:
            continue
        if line.attempt > cancel.answer.get("attempts", {}).get(line.task, 0):
            yield Violation("I13", f"{line} came after its execution was cancelled", line.at)
