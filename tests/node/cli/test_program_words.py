"""Words of a program that stand before the two dashes."""

import pytest

from support.rota_program import Rota


@pytest.mark.parametrize(
    ("typed", "right"),
    [
        ("jobs create hi echo hello", "jobs create hi -- echo hello"),
        ("jobs create hi echo -- hello", "jobs create hi -- echo hello"),
        ("jobs create hi echo -- --help", "jobs create hi -- echo --help"),
        ("jobs create hi ls -la /tmp", "jobs create hi -- ls -la /tmp"),
        ("jobs create hi tail -n 5 -f log", "jobs create hi -- tail -n 5 -f log"),
        ("jobs create --env A=-- hi env", "jobs create --env A=-- hi -- env"),
        ("jobs create --description -- hi env", "jobs create --description -- hi -- env"),
        (
            "jobs create hi --schedule @daily echo --retries 3 hello --color",
            "jobs create hi --schedule @daily --retries 3 -- echo hello --color",
        ),
        (
            "jobs create hi --image alpine sleep 1 --no-network --cpu=0.5",
            "jobs create hi --image alpine --no-network --cpu=0.5 -- sleep 1",
        ),
        ("-n x jobs create hi env", "jobs create --namespace=x hi -- env"),
        (
            "bench slo --p99-lateness 25ms /bin/true -x",
            "bench slo --p99-lateness 25ms -- /bin/true -x",
        ),
    ],
)
def test_words_before_the_dashes_are_refused_with_the_right_command(
    rota_alone: Rota, typed: str, right: str
) -> None:
    ran = rota_alone(*typed.split())

    assert (ran.status, ran.out) == (2, "")
    assert ran.err.endswith(f"Error: The command follows two dashes: rota {right}\n")


def test_the_right_command_is_quoted_for_a_shell(rota_alone: Rota) -> None:
    ran = rota_alone("jobs", "create", "hi", "--schedule", "* * * * *", "fetch | load")

    assert ran.err.endswith("rota jobs create hi --schedule '* * * * *' -- 'fetch | load'\n")


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("jobs create hi --retires 3 echo", "No such option '--retires'"),
        ("jobs create -f a.yaml b.yaml c.yaml", "not both"),
        ("jobs create hi --retries", "requires an argument"),
        ("jobs create hi", "name a job and, after two dashes, its command"),
    ],
)
def test_other_errors_remain(rota_alone: Rota, typed: str, said: str) -> None:
    ran = rota_alone(*typed.split())

    assert ran.status == 2
    assert said in ran.err


def test_help_is_shown_whatever_words_there_are(rota_alone: Rota) -> None:
    assert rota_alone("jobs", "create", "hi", "ls", "--help").status == 0
    assert "Usage:" in rota_alone("jobs", "create", "hi", "ls", "--help").out


def test_words_after_the_dashes_are_the_command(rota: Rota) -> None:
    made = rota("jobs", "create", "dashed", "--retries", "1", "--", "echo", "--", "-n", "--help")

    assert made.status == 0, made.err
    shown = rota("jobs", "show", "dashed", "-o", "json").json
    assert shown["tasks"][0]["command"] == ["echo", "--", "-n", "--help"]
