"""Shared documents: definitions that all nodes have."""

from typing import Annotated

import msgspec

from rota.wire.documents.document import Body, InstantText, Json, ProseText, View, Word

Fields = Annotated[dict[Word, Json], msgspec.Meta(max_length=1_000)]


class JobTypeBody(Body, frozen=True):
    """A job type: how jobs with ``"type": NAME`` run.

    Attributes:
        description: A description for people.
        parameters: A JSON Schema (draft 2020-12) of the parameters, without references. The
            ``default`` of a property is used for parameters without that property.
        template: The fields of a job, such as ``command``, ``retries`` and ``labels``, for the jobs
            of this type; its name, namespace, schedules, time zone, dependencies and parameters are
            not allowed here.
    """

    description: ProseText = ""
    parameters: Fields = {}
    template: Fields = {}


class DocumentView(View, frozen=True):
    """A shared document.

    Attributes:
        kind: Its kind, such as ``types``.
        name: Its name.
        version: The number of its version, from 1; each change increases it, also a deletion.
        definition: Its definition, as in the request that made this version, but without the fields
            that have their defaults.
        changed_at: When this version was made.
        changed_by: The caller that made this version.
    """

    kind: str
    name: str
    version: int
    definition: dict[str, Json]
    changed_at: InstantText
    changed_by: str


class DocumentPage(View, frozen=True):
    """A page of shared documents.

    Attributes:
        items: The documents, ordered by name.
        next_cursor: The cursor of the next page; null for the last page.
    """

    items: list[DocumentView]
    next_cursor: str | None = None


class DocumentChangeView(View, frozen=True):
    """A change of a shared document.

    Attributes:
        version: The version that the change made.
        at: When the change was made.
        by: The caller that made the change.
        action: ``created``, ``replaced`` or ``deleted``.
    """

    version: int
    at: InstantText
    by: str
    action: str


class DocumentChangesView(View, frozen=True):
    """The changes of a shared document.

    Attributes:
        items: The newest 20 changes, the newest first.
    """

    items: list[DocumentChangeView]
