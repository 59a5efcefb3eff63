"""Texts of refusals: the name, the next step, and the first of several problems."""

from rota.core.errors import Problem, invalid_fields, not_found


def test_an_object_that_does_not_exist_is_named_with_the_next_step() -> None:
    refusal = not_found("job", "default/nightly")

    assert refusal.code == "job_not_found"
    assert refusal.detail == (
        "there is no job 'default/nightly'; check the name and the namespace: `rota jobs` lists "
        "the jobs"
    )


def test_a_caller_gives_the_kind_in_words_and_the_next_step() -> None:
    refusal = not_found("type", "x", "the types are a, b", about="job type")

    assert (refusal.code, refusal.detail) == (
        "type_not_found",
        "there is no job type 'x'; the types are a, b",
    )


def test_the_detail_of_several_problems_is_the_first_and_the_number_of_the_others() -> None:
    problems = [Problem(f"/tasks/{number}", "is wrong; correct it") for number in range(3)]

    assert invalid_fields("invalid_job", problems[:1]).detail == "/tasks/0: is wrong; correct it"
    refusal = invalid_fields("invalid_job", problems)
    assert refusal.detail == "/tasks/0: is wrong; correct it (and 2 more, see errors)"
    assert refusal.problems == tuple(problems)
