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

B = TypeVar("B", bound=msgspec.Struct)


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
        reading: The permission that callers need to read documents of this kind.
        writing: The permission that callers need to change them.
        problems_of: Returns the errors of a definition; its arguments are name and definition.
    """

    plural: str
    singular: str
    title: str
    about: str
    not_found_code: str
    invalid_code: str
    body: type[B]
    reading: Permission
    writing: Permission
    problems_of: Callable[[str, B], Sequence[Problem]]

    def key(self, name: str) -> DocumentKey:
        """Return the key of the document *name*."""
        return DocumentKey(self.plural, name)

    def missing(self, name: str) -> Refused:
        """Return the refusal of a request about a document that does not exist."""
        hint = f"check the name: `rota get {self.plural}` lists the names"
        return not_found(self.singular, name, hint, about=self.about)

    def checked(self, name: str, body: B) -> Definition:
        """Return the definition in *body*, as it is stored: without defaults.

        Raises:
            Refused: The name or the definition is invalid.
        """
        problems = list(self.problems_of(name, body))
        if not is_name(name):
            problems.insert(0, Problem("/name", f"{in_quotes(name)} is not a name: {NAME_RULE}"))
        if problems:
            raise invalid_fields(self.invalid_code, problems)
        definition: Definition = msgspec.to_builtins(body)
        return definition
