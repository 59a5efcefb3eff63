"""A second interpreter of flows, written from docs/reference/flows.md and jobs.md alone.

It reads definitions as the API takes them, and has neither a shard nor time: a caller ends one
attempt after another. It supports `needs`, trigger rules, `when`, `switch`, `foreach` over literal
items, `repeat`, teardowns, `handlesFailure`, `failFast`, retries and skips, and the expressions of
`FlowOracle._value_of`. Tasks that one event ends count one after another, as they ended; each end
reaches the tasks that need it in the order of the definition.
"""

import re
from collections import Counter, deque
from typing import Any

Json = Any  # Any, as definitions are.
FINAL = ("success", "failed", "skipped", "cancelled")


class FlowOracle:
    """An execution of a job.

    Attributes:
        status: The status of each task and step.
    """

    def __init__(self, job: Json) -> None:
        self.tasks: dict[str, Json] = {task["name"]: task for task in job["tasks"]}
        self.status = dict.fromkeys(self.tasks, "blocked")
        self._counted: dict[str, str] = {}
        self._fails_fast: bool = job.get("failFast", False)
        self._is_stopped = False
        self._is_time_for_teardowns = False
        self._steps: dict[str, list[str]] = {name: [] for name in self.tasks}
        self._owner: dict[str, str] = {}
        self._failures: Counter[str] = Counter()
        self._chosen: dict[str, list[str]] = {}
        self._ended: deque[tuple[str, str]] = deque()
        for name, task in self.tasks.items():
            is_first = not task.get("needs") or task.get("triggerRule") == "always"
            if is_first and not task.get("teardown"):
                self._begin(name)
        self._settle()

    # -- events ---------------------------------------------------------------------------------

    def running(self) -> set[str]:
        """Return the tasks and steps whose attempt runs."""
        return {name for name, status in self.status.items() if status == "running"}

    def end(self, name: str, outcome: str) -> None:
        """End the running attempt of a task or step: ``success``, ``failed`` or ``skipped``."""
        task = self.tasks[self._owner.get(name, name)]
        if self._is_stopped and not task.get("teardown"):
            self._close(name, "cancelled" if outcome == "failed" else outcome)
        elif outcome == "failed" and self._failures[name] < task.get("retries", {}).get("limit", 0):
            self._failures[name] += 1
            self.status[name] = "backing_off"
        else:
            self._close(name, outcome)
        self._settle()

    def pass_delays(self) -> None:
        """Begin the next attempts of all steps that back off."""
        for name, status in self.status.items():
            if status == "backing_off":
                self.status[name] = "running"

    def verdict(self) -> str:
        """Return the status of the execution, all of whose tasks have ended."""
        assert all(status in FINAL for status in self.status.values()), self.status
        handled: set[str] = set()
        for name, task in self.tasks.items():
            if task.get("handlesFailure") and self.status[name] == "success":
                handled |= self._above(name)
        failed = {
            name
            for name, task in self.tasks.items()
            if self.status[name] == "failed" and not task.get("allowFailure")
        }
        return "failed" if self._is_stopped or failed - handled else "success"

    def _above(self, name: str) -> set[str]:
        found: set[str] = set()
        rest = list(self.tasks[name].get("needs", ()))
        while rest:
            each = rest.pop()
            if each not in found:
                found.add(each)
                rest += self.tasks[each].get("needs", ())
        return found

    # -- what follows ---------------------------------------------------------------------------

    def _settle(self) -> None:
        while True:
            while self._ended:
                self._follow(*self._ended.popleft())
            others = {name for name, task in self.tasks.items() if not task.get("teardown")}
            is_open = any(
                status not in FINAL and self._owner.get(name, name) in others
                for name, status in self.status.items()
            )
            if is_open or self._is_time_for_teardowns:
                return
            self._is_time_for_teardowns = True
            for name in self.tasks:
                self._apply_rule(name)

    def _follow(self, name: str, counted: str) -> None:
        self._counted[name] = counted
        if name in self._owner:
            self._continue_loop(self._owner[name])
            return
        is_late = self._is_stopped or self._is_time_for_teardowns
        is_failure = self.status[name] == "failed" and not self.tasks[name].get("allowFailure")
        if self._fails_fast and is_failure and not is_late:
            self._stop()
        for each, task in self.tasks.items():
            if name in task.get("needs", ()):
                self._apply_rule(each)

    def _stop(self) -> None:
        self._is_stopped = True
        for name, status in list(self.status.items()):
            task = self.tasks[self._owner.get(name, name)]
            if status not in (*FINAL, "running") and not task.get("teardown"):
                self._close(name, "cancelled")

    def _apply_rule(self, name: str) -> None:
        task = self.tasks[name]
        if task.get("teardown") and not self._is_time_for_teardowns:
            return
        if self.status[name] != "blocked":
            return
        counts = Counter(self._counted.get(each, "open") for each in task.get("needs", ()))
        verdict = verdict_of(task.get("triggerRule", "all_success"), counts)
        if verdict == "start" or not task.get("needs"):
            self._begin(name)
        elif verdict:
            self._close(name, "skipped", verdict)

    def _begin(self, name: str) -> None:
        task = self.tasks[name]
        for switch, chosen in self._chosen.items():
            cases = self.tasks[switch]["switch"]
            if name not in chosen and any(name in case["to"] for case in cases):
                self._close(name, "skipped")
                return
        condition = self._value_of(task.get("when", "true"))
        if not condition:
            self._close(name, "failed" if condition is None else "skipped")
        elif "switch" in task:
            self._choose(name)
        elif "repeat" in task:
            self.status[name] = "waiting"
            self._begin_step(name)
        elif "foreach" in task:
            loop = task["foreach"]
            self.status[name] = "waiting"
            for _ in range(min(len(loop["items"]), loop.get("maxParallel", 100))):
                self._begin_step(name)
            if not loop["items"]:
                is_success = loop.get("onEmpty") == "success"
                self._close(name, "success" if is_success else "skipped")
        else:
            self.status[name] = "running"

    def _choose(self, name: str) -> None:
        for case in self.tasks[name]["switch"]:
            holds = self._value_of(case.get("when", "true"))
            if holds is None:
                self._close(name, "failed")
                return
            if holds:
                self._chosen[name] = case["to"]
                break
        else:
            self._chosen[name] = []
        self._close(name, "success")

    def _close(self, name: str, status: str, counted: str = "") -> None:
        self.status[name] = status
        if status == "failed" and self.tasks.get(name, {}).get("allowFailure"):
            counted = "success"
        self._ended.append((name, counted or status))

    # -- loops ----------------------------------------------------------------------------------

    def _begin_step(self, name: str) -> None:
        number = len(self._steps[name])
        step = f"{name}#{number + 1}" if "repeat" in self.tasks[name] else f"{name}[{number}]"
        self._steps[name].append(step)
        self._owner[step] = name
        self.status[step] = "running"

    def _continue_loop(self, name: str) -> None:
        if self.status[name] != "waiting":
            return
        task = self.tasks[name]
        ends = [self.status[step] for step in self._steps[name]]
        if "repeat" in task:
            if ends[-1] != "success":
                self._close(name, ends[-1])
            elif self._value_of(task["repeat"]["until"], index=len(ends)):
                self._close(name, "success")
            elif len(ends) == task["repeat"]["limit"]:
                self._close(name, "failed")
            else:
                self._begin_step(name)
            return
        has_failed = ends.count("failed") > task["foreach"].get("toleratedFailures", 0)
        if not has_failed and len(ends) < len(task["foreach"]["items"]):
            self._begin_step(name)
        elif all(end in FINAL for end in ends):
            is_skipped = all(end == "skipped" for end in ends)
            self._close(name, "failed" if has_failed else "skipped" if is_skipped else "success")

    def _value_of(self, expression: str, index: int = 0) -> bool | None:
        """Return the value of an expression; None if it has none."""
        if found := re.fullmatch(r'states\.(\w+) == "(\w+)"', expression):
            return self.status[found[1]] == found[2]
        if found := re.fullmatch(r"index >= (\d+)", expression):
            return index >= int(found[1])
        return {"true": True, "false": False, "params.none.none": None}[expression]


def verdict_of(rule: str, counts: Counter[str]) -> str:
    """Return ``start``, how the task counts if it is skipped, or an empty text: it waits."""
    success, skipped, is_open = counts["success"], counts["skipped"], counts["open"]
    failed = counts["failed"] + counts["upstream_failed"]
    bad = failed + counts["cancelled"]
    none_left = not is_open and not success
    without_success = "upstream_failed" if none_left and bad else "skipped" if none_left else ""
    skips = {
        "all_success": "upstream_failed" if bad else "skipped" if skipped else "",
        "all_failed": "skipped" if success or skipped or counts["cancelled"] else "",
        "all_done_min_one_success": without_success,
        "one_success": without_success,
        "one_failed": "skipped" if not is_open and not failed else "",
        "one_done": "skipped" if none_left and not counts["failed"] else "",
        "none_failed": "upstream_failed" if bad else "",
        "none_failed_min_one_success": "upstream_failed" if bad else without_success,
        "none_skipped": "skipped" if skipped else "",
        "all_skipped": "skipped" if success or bad else "",
    }
    early = {
        "one_success": success,
        "one_failed": failed,
        "one_done": success + counts["failed"],
        "always": True,
    }
    return skips.get(rule, "") or ("start" if early.get(rule, not is_open) else "")
