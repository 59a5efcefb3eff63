"""C6, at a fenced sink: it refuses writes with older tokens, and accepts all others.

The sink takes what comes with a token at least as high as all before of that job. So if tokens did
not grow, an attempt that is on record as succeeded would have been refused.
"""

from collections import defaultdict
from collections.abc import Iterator

from chaos.judge.records import Records, Violation


def violations(records: Records) -> Iterator[Violation]:
    """Yield writes that were wrongly accepted or refused."""
    highest: dict[str, str] = defaultdict(str)
    for each in records.sink:
        if each.accepted and each.token < highest[each.job]:
            yield Violation("C6", f"the sink accepted {each} after {highest[each.job]}", each.at)
        highest[each.job] = max(highest[each.job], each.token)
        if not each.accepted and _succeeded(records, each.execution, each.task, each.attempt):
            yield Violation("C6", f"the sink refused {each}, which succeeded", each.at)


def _succeeded(records: Records, execution_id: str, task: str, number: int) -> bool:
    execution = records.executions.get(execution_id)
    attempts = execution.tasks.get(task, ()) if execution else ()
    return any(each.number == number and each.outcome == "success" for each in attempts)
