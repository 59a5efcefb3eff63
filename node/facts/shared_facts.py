"""The present facts: shared documents, compiled one by one as they change.

A kind of documents that decisions use is a row of `COMPILERS` and an attribute of
`rota.core.vocabulary.facts.Facts`.
"""

from collections.abc import Callable, Mapping

import msgspec
from msgspec.structs import replace

from rota.core.decoding import UNDECODABLE
from rota.core.model.shared_document import NAMESPACES, DocumentKey, SharedDocument
from rota.core.timing.calendars import Calendars
from rota.core.vocabulary.facts import NO_FACTS, Facts
from rota.core.vocabulary.quotas import NO_QUOTA, Quota
from rota.node.facts.pauses import pause_in
from rota.wire.bodies.calendar_bodies import calendar_in
from rota.wire.documents import NamespaceBody

CALENDARS = "calendars"
"""The kind of the calendars."""

Compiler = Callable[[Facts, str, SharedDocument | None], Facts]
"""Returns the facts with those of the document of a name, or without them if it is None."""


class SharedFacts:
    """The facts for the decisions of a node."""

    def __init__(self) -> None:
        self._present: Facts = NO_FACTS
        self._versions: dict[DocumentKey, int] = {}

    def present(self) -> Facts:
        """Return the present facts."""
        return self._present

    def changed(self, key: DocumentKey, document: SharedDocument | None) -> None:
        """Take the new record of a document; None if the record was removed."""
        compiled = COMPILERS.get(key.kind)
        if compiled is None:
            return
        before = self._versions.pop(key, 0)
        if document is not None:
            self._versions[key] = document.version
        version = self._present.version - before + self._versions.get(key, 0)
        is_there = document is not None and document.definition is not None
        facts = compiled(self._present, key.name, document if is_there else None)
        self._present = replace(facts, version=version)


def _with_namespace(facts: Facts, name: str, document: SharedDocument | None) -> Facts:
    pauses = {each: pause for each, pause in facts.pauses.items() if each != name}
    quotas = {each: quota for each, quota in facts.quotas.items() if each != name}
    if document is not None and document.definition is not None:
        pause = pause_in(document.definition, changed_at=document.changed_at)
        if pause is not None:
            pauses[name] = pause
        quota = _quota_in(document)
        if quota != NO_QUOTA:
            quotas[name] = quota
    return replace(facts, pauses=pauses, quotas=quotas)


def _quota_in(document: SharedDocument) -> Quota:
    """Return the quota in the document of a namespace; none if it is not understood.

    No task runs in such a namespace, which `rota.node.namespaces.namespaces` logs.
    """
    try:
        quota = msgspec.convert(document.definition, NamespaceBody).quota
    except (*UNDECODABLE, ValueError):
        return NO_QUOTA
    return Quota(jobs=quota.jobs, executions=quota.executions)


def _with_calendar(facts: Facts, name: str, document: SharedDocument | None) -> Facts:
    calendars = {each: one for each, one in facts.calendars.items() if each != name}
    if document is not None:
        calendars[name] = calendar_in(document)
    return with_calendars(facts, calendars)


def with_calendars(facts: Facts, calendars: Calendars) -> Facts:
    """Return the facts with *calendars* in place of all of theirs."""
    blackouts: dict[str, tuple[str, ...]] = {}
    for each in sorted(calendars):
        for namespace in calendars[each].blackout_of:
            blackouts[namespace] = (*blackouts.get(namespace, ()), each)
    return replace(facts, calendars=calendars, blackouts=blackouts)


COMPILERS: Mapping[str, Compiler] = {NAMESPACES: _with_namespace, CALENDARS: _with_calendar}
"""For each kind of documents that decisions use, the function that compiles a document."""
