"""Facts for decisions, compiled from shared documents."""

from typing import Any

import pytest

from rota.core.model.job import Pause
from rota.core.model.shared_document import NAMESPACES, DocumentKey, SharedDocument, next_version
from rota.core.timing.instants import Instant
from rota.core.vocabulary.facts import NO_FACTS
from rota.core.vocabulary.quotas import Quota
from rota.node.facts.shared_facts import SharedFacts

TEAM, OTHER = DocumentKey(NAMESPACES, "team"), DocumentKey(NAMESPACES, "other")
AT = Instant(7)


def document(
    key: DocumentKey, definition: dict[str, Any] | None, before: SharedDocument | None = None
) -> SharedDocument:
    return next_version(key, before, definition, at=AT, by="ann")


def test_facts_have_the_pauses_and_quotas_of_all_namespaces() -> None:
    facts = SharedFacts()

    facts.changed(TEAM, document(TEAM, {"pause": {"by": "ann"}, "quota": {"jobs": 3}}))
    facts.changed(OTHER, document(OTHER, {"quota": {"executions": 0}}))

    present = facts.present()
    assert present.pauses == {"team": Pause(at=AT, by="ann", reason="")}
    assert present.quotas == {"team": Quota(jobs=3), "other": Quota(executions=0)}


@pytest.mark.parametrize("definition", [{}, None])
def test_what_a_document_no_longer_says_is_no_fact(definition: dict[str, Any] | None) -> None:
    facts = SharedFacts()
    first = document(TEAM, {"pause": {"by": "ann"}, "quota": {"jobs": 3}})
    facts.changed(TEAM, first)

    facts.changed(TEAM, document(TEAM, definition, first))

    assert (facts.present().pauses, facts.present().quotas) == ({}, {})


def test_facts_that_a_decision_has_do_not_change() -> None:
    facts = SharedFacts()
    before = facts.present()

    facts.changed(TEAM, document(TEAM, {"pause": {"by": "ann"}}))

    assert before == NO_FACTS


def test_a_document_that_is_not_understood_pauses_its_namespace() -> None:
    facts = SharedFacts()

    facts.changed(TEAM, document(TEAM, {"pause": "?", "quota": {"jobs": "three"}}))

    assert "team" in facts.present().pauses
    assert not facts.present().quotas


def test_the_version_counts_the_changes_of_documents_that_decisions_use() -> None:
    facts, again = SharedFacts(), SharedFacts()
    first, other = document(TEAM, {}), document(OTHER, {})
    second = document(TEAM, None, first)
    role = DocumentKey("roles", "team")

    versions: list[int] = []
    for key, each in ((TEAM, first), (OTHER, other), (TEAM, second), (role, document(role, {}))):
        facts.changed(key, each)
        versions.append(facts.present().version)
    again.changed(TEAM, second)
    again.changed(OTHER, other)

    assert versions == [1, 2, 3, 3]
    assert again.present().version == 3


def test_the_version_does_not_count_records_that_were_removed() -> None:
    facts = SharedFacts()
    facts.changed(TEAM, document(TEAM, {}))

    facts.changed(TEAM, None)

    assert facts.present().version == 0
