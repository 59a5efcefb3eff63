"""Kind of shared documents: its names, the form of its definitions, and the check of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from rota.core.errors import Problem, Refused, invalid_fields, not_found
from rota.core.model.ids import NAME_RULE, is_name
from rota.core.model.shared_document import Definition, DocumentKey
from rota.core.quoting import in_quotes
from rota.node.api.requests.permissions import Permission
from rota.node.api.requests.request_context import RequestContext

B = TypeVar("B", bound=msgspec.Struct)


class ObjectRules(Generic[B]):
    """Rules of access to the single documents of a kind, for permissions of an object or of each.

    A document of such a kind is changed only if it is still the version that was authorized.
    """

    def authorize_read(
        self, request: RequestContext, name: str, definition: Definition | None, missing: Refused
    ) -> None:
        """Check that the caller may read a document; *definition* is None for a deleted one.

        Raises:
            Refused: *missing*, as for a document that does not exist.
        """
        raise NotImplementedError

    def may_see(self, request: RequestContext, name: str, definition: Definition) -> bool:
        """Return True if a list for the caller has the document."""
        raise NotImplementedError

    def authorize_change(
        self,
        request: RequestContext,
        before: Definition | None,
        after: B | None,
        missing: Refused,
    ) -> None:
        """Check that the caller may replace *before* with *after*.

        Args:
            request: The request.
            before: The definition before the change; None if there is none.
            after: The definition after the change; None for a deletion.
            missing: The refusal for a document that does not exist.

        Raises:
            Refused: The caller may not; *missing* if it may not even read the document.
        """
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentKind(Generic[B]):
    """A kind of shared documents.

    Attributes:
        plural: Its name in paths, such as ``types``.
        singular: Its name in codes of errors, such as ``type``.
        title: Its heading in the reference, such as ``Job types``.
        about: A phrase for one document, such as ``job type``.
        not_found_code: The code of the error about a document that does not exist: the singular
            and ``_not_found``.
        invalid_code: The code of the error about an invalid definition.
        body: The form of a definition.
        listing: The permission that callers need to list documents of this kind; None for that of
            *reading*.
        reading: The permission that callers need to read a document of this kind.
        writing: The permission that callers need to change them.
        problems_of: Returns the errors of a definition; its arguments are name and definition.
        dangling: Returns the errors about other documents that a new definition names; its
            arguments are the request, the definition, and the definition before it. None if
            definitions name no others.
        rules: The rules of access to single documents; None if the permissions suffice.
        completed: Returns a definition with what it takes over from the definition before it; None
            if it takes over nothing.
        shown: Returns the part of a stored definition that responses have; None for the whole.
    """

    plural: str
    singular: str
    title: str
    about: str
    not_found_code: str
    invalid_code: str
    body: type[B]
    listing: Permission | None = None
    reading: Permission
    writing: Permission
    problems_of: Callable[[str, B], Sequence[Problem]]
    dangling: Callable[[RequestContext, B, Definition | None], Sequence[Problem]] | None = None
    rules: ObjectRules[B] | None = None
    completed: Callable[[B, Definition], B] | None = None
    shown: Callable[[Definition], Definition] | None = None

    @property
    def one(self) -> str:
        """A phrase for one document with its article, such as ``a job type``."""
        return f"{'an' if self.about[0] in 'aeiou' else 'a'} {self.about}"

    @property
    def needs_version(self) -> bool:
        """Whether a change depends on the definition before it, and is made for that version."""
        return self.rules is not None or self.completed is not None

    def key(self, name: str) -> DocumentKey:
        """Return the key of the document *name*."""
        return DocumentKey(self.plural, name)

    def missing(self, name: str) -> Refused:
        """Return the refusal of a request about a document that does not exist."""
        hint = f"check the name: `rota get {self.plural}` lists the names"
        return not_found(self.singular, name, hint, about=self.about)

    def checked(self, name: str, body: B) -> Definition:
        """Return the definition in *body*, as it is stored: without defaults.

        Documents that it names are not looked up; see `checked_to_save`.

        Raises:
            Refused: The name or the definition is invalid.
        """
        return self._stored(name, body, self.problems_of(name, body))

    def checked_to_save(
        self, request: RequestContext, name: str, body: B, before: Definition | None
    ) -> Definition:
        """Return the definition in *body*, as it is stored in the place of *before*.

        Raises:
            Refused: The name or the definition is invalid, or names what does not exist.
        """
        problems = list(self.problems_of(name, body))
        if self.dangling is not None:
            problems += self.dangling(request, body, before)
        return self._stored(name, body, problems)

    def _stored(self, name: str, body: B, found: Sequence[Problem]) -> Definition:
        problems = list(found)
        if not is_name(name):
            problems.insert(0, Problem("/name", f"{in_quotes(name)} is not a name: {NAME_RULE}"))
        if problems:
            raise invalid_fields(self.invalid_code, problems)
        definition: Definition = msgspec.to_builtins(body)
        return definition
