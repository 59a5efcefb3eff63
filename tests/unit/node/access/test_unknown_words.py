"""Messages about roles and verbs that do not exist."""

import pytest

from rota.node.access.unknown_words import OWN_ROLES_SHOWN, unknown_role, unknown_verb


def test_a_role_that_does_not_exist_is_refused_with_a_similar_one_and_the_known_roles() -> None:
    said = unknown_role("deploer", ["deployer"])

    assert "there is no role 'deploer' (did you mean 'deployer'?)" in said
    assert "viewer, operator, editor, admin" in said
    assert "did you mean" not in unknown_role("zzz")


def test_at_most_a_few_roles_of_documents_are_listed() -> None:
    own = [f"r{number:02}" for number in range(OWN_ROLES_SHOWN + 1)]

    said = unknown_role("zzz", own)

    assert own[-2] in said
    assert own[-1] not in said


@pytest.mark.parametrize(("verb", "meant"), [("wriet", "write"), ("secret-use", "secret:use")])
def test_a_verb_that_does_not_exist_is_refused_with_a_similar_one(verb: str, meant: str) -> None:
    assert f"{verb!r} is not a verb (did you mean {meant!r}?); the verbs" in unknown_verb(verb)
