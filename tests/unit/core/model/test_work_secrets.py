"""Secrets in the work of a task: what no machine could run is refused when the job is saved."""

import pytest

from rota.core.model.work import Image, SecretNames, Work
from rota.core.model.work_checks import SECRETS_MAX, problems_of_work

BOTH = SecretNames(env=(("DB_PASSWORD", "db"),), files=(("pg.pass", "db"), ("tls.key", "key")))


def reasons(work: Work) -> list[str]:
    return [str(problem) for problem in problems_of_work(work, "")]


def test_secrets_as_variables_and_files_are_accepted() -> None:
    assert reasons(Work(argv=("true",), secrets=BOTH)) == []
    assert BOTH.names == ("db", "key")


@pytest.mark.parametrize(
    ("secrets", "reason"),
    [
        (SecretNames(env=(("ROTA_TOKEN", "db"),)), "reserved"),
        (SecretNames(env=(("A=B", "db"),)), "cannot be an environment variable"),
        (SecretNames(env=(("PLAIN", "db"),)), "is in env, too"),
        (SecretNames(env=(("A", "../db"),)), "cannot be the name of a secret"),
        (SecretNames(files=(("../x", "db"),)), "cannot be the name of the file"),
        (SecretNames(files=((".", "db"),)), "cannot be the name of the file"),
        (SecretNames(files=(("x", "team-b/db"),)), "cannot be the name of a secret"),
        (SecretNames(env=tuple((f"A{n}", "db") for n in range(SECRETS_MAX + 1))), "too many"),
    ],
)
def test_names_that_cannot_be_used_are_refused(secrets: SecretNames, reason: str) -> None:
    work = Work(argv=("true",), env=(("PLAIN", "1"),), secrets=secrets)

    assert any(reason in each for each in reasons(work)), reasons(work)


def test_a_container_gets_files_only() -> None:
    image = Image(name="busybox")
    work = Work(executor="container", image=image, secrets=SecretNames(env=(("A", "db"),)))

    assert any("writes variables to its disk" in each for each in reasons(work))
    work = Work(executor="container", image=image, secrets=SecretNames(files=(("a", "db"),)))
    assert reasons(work) == []


def test_types_that_pass_no_secrets_are_refused() -> None:
    work = Work(executor="scripted", secrets=SecretNames(files=(("a", "db"),)))

    assert any("cannot have secrets" in each for each in reasons(work))
