"""The user of a command: what may have one."""

import pytest

from rota.core.model.work import Call, Image, Sandbox, SecretNames, Work
from rota.core.model.work_checks import problems_of_work

AS_BATCH = Work(executor="user", shell="true", user="batch")


def places(work: Work) -> list[str]:
    """Return the pointers of the problems of a task."""
    return [each.pointer for each in problems_of_work(work, "")]


def test_a_command_may_run_as_a_user() -> None:
    assert places(AS_BATCH) == []
    assert places(Work(executor="user", argv=("a", "b"), user="www-data")) == []


@pytest.mark.parametrize(
    "work",
    [
        Work(executor="process", shell="true", user="batch"),
        Work(executor="python", call=Call(function="m:f"), user="batch"),
        Work(executor="container", image=Image(name="busybox"), user="batch"),
        Work(executor="user", shell="true"),
    ],
)
def test_the_user_belongs_to_its_executor_alone(work: Work) -> None:
    """A node of an earlier version does not read the user, and must not run the program as root."""
    assert places(work) == ["/user"]


@pytest.mark.parametrize("name", ["0", "1000", "-u", "a b", "a/b", "A", "a" * 33, "a\n"])
def test_a_name_that_no_user_has_is_refused(name: str) -> None:
    assert places(Work(executor="user", shell="true", user=name)) == ["/user"]


def test_a_user_needs_exactly_one_program() -> None:
    assert places(Work(executor="user", user="batch")) == ["/command"]


def test_a_command_of_a_user_has_no_sandbox_and_no_files_of_the_nodes_user() -> None:
    boxed = Work(executor="user", shell="true", user="b", sandbox=Sandbox(profile="strict"))
    names = SecretNames(env=(("A", "a"),), files=(("f", "a"),))
    secret = Work(executor="user", shell="true", user="b", secrets=names)
    identity = Work(executor="user", shell="true", user="b", has_identity=True)

    assert places(boxed) == ["/sandbox"]
    assert places(secret) == ["/secrets/files"]
    assert places(identity) == ["/identity"]
