"""Graphs of tasks: which are refused."""

from itertools import islice
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from rota.core.model.dag import dependents, problems_of_graph
from rota.core.model.job import TaskSpec
from unit.core.shard import task


def test_dependents_are_the_needs_turned_around() -> None:
    diamond = (task("a"), task("b", "a"), task("c", "a"), task("d", "b", "c"))

    found = dependents(diamond)

    assert found == {"a": ("b", "c"), "b": ("d",), "c": ("d",)}


def test_a_sound_graph_has_no_problems() -> None:
    diamond = (task("a"), task("b", "a"), task("c", "a"), task("d", "b", "c"))

    assert list(problems_of_graph(diamond)) == []


def test_a_cycle_is_refused_with_its_path() -> None:
    circle = (task("start"), task("a", "start", "c"), task("b", "a"), task("c", "b"))

    (problem,) = problems_of_graph(circle)

    assert problem.pointer == "/tasks/1/needs"
    assert "a -> c -> b -> a; " in problem.detail


def test_a_task_cannot_need_itself() -> None:
    (problem,) = problems_of_graph((task("a", "a"),))

    assert "form a cycle: a -> a; " in problem.detail


def test_an_unknown_need_is_refused_with_what_there_is() -> None:
    (problem,) = problems_of_graph((task("build"), task("test", "compile")))

    assert problem.pointer == "/tasks/1/needs/0"
    assert problem.detail == (
        "task 'test' needs 'compile', which is not a task of this job (its other tasks are build)"
    )


def test_similar_names_of_other_tasks_are_suggested_for_the_first_unknown_needs() -> None:
    job = (task("build"), *(task(f"test-{number}", "biuld", "tets-0") for number in range(2)))

    details = [problem.detail.rpartition("; ")[2] for problem in problems_of_graph(job)]

    assert details[:3] == [
        "did you mean 'build'?",
        "did you mean 'test-1'?",
        "did you mean 'build'?",
    ]
    assert "did you mean" not in details[3]


class Compared(str):
    """A name that counts how often any is put in order with another."""

    comparisons = 0

    def __lt__(self, other: str) -> bool:
        Compared.comparisons += 1
        return super().__lt__(other)


def test_unknown_needs_of_all_tasks_cost_one_look_at_the_names() -> None:
    """One request with 10,000 of them held a node for minutes, and all its shards were lost."""
    job = tuple(task(Compared(f"task-{number:03}"), f"taks-{number}") for number in range(300))
    Compared.comparisons = 0

    problems = list(problems_of_graph(job))

    assert len(problems) == 300
    assert Compared.comparisons < 20 * len(job)


def test_problems_are_looked_for_as_they_are_asked_for() -> None:
    asked: list[int] = []

    class Looked(NamedTuple):
        number: int

        @property
        def name(self) -> str:
            return f"t{self.number}"

        @property
        def needs(self) -> tuple[str, ...]:
            asked.append(self.number)
            return ("a", "a")

    first = list(islice(problems_of_graph(tuple(Looked(number) for number in range(1_000))), 3))

    assert [problem.pointer for problem in first] == [f"/tasks/{n}/needs/1" for n in range(3)]
    assert max(asked) == 2


def test_a_long_cycle_is_shown_in_part() -> None:
    circle = tuple(task(f"t{n}", f"t{(n + 1) % 5_000}") for n in range(5_000))

    (problem,) = problems_of_graph(circle)

    assert "t7 -> t8 -> (4,991 more) -> t0; " in problem.detail


def test_the_same_name_and_the_same_need_twice_are_refused() -> None:
    problems = problems_of_graph((task("a"), task("a"), task("b", "a", "a")))

    assert [problem.pointer for problem in problems] == ["/tasks/1/name", "/tasks/2/needs/1"]


def test_a_chain_of_ten_thousand_tasks_is_walked_without_recursion() -> None:
    chain = tuple(task(f"t{n}", *([f"t{n + 1}"] if n < 9_999 else [])) for n in range(10_000))

    assert list(problems_of_graph(chain)) == []


@st.composite
def graphs(draw: st.DrawFn) -> tuple[TaskSpec, ...]:
    count = draw(st.integers(1, 7))
    numbers = st.lists(st.integers(0, count - 1), unique=True, max_size=3)
    return tuple(task(f"t{n}", *(f"t{m}" for m in draw(numbers))) for n in range(count))


@given(graphs())
@settings(max_examples=200, deadline=None)
def test_a_graph_is_refused_exactly_if_its_tasks_cannot_be_put_in_order(
    tasks: tuple[TaskSpec, ...],
) -> None:
    problems = list(problems_of_graph(tasks))

    assert bool(problems) is not _can_be_ordered(tasks)


def _can_be_ordered(tasks: tuple[TaskSpec, ...]) -> bool:
    """Return True if an order exists by Kahn's method, independent of the depth-first search."""
    left = {one.name: set(one.needs) for one in tasks}
    while free := [name for name, needs in left.items() if not needs]:
        for name in free:
            del left[name]
        for needs in left.values():
            needs.difference_update(free)
    return not left
