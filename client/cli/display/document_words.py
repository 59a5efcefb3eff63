"""Words for the kinds of shared documents, as the command line has them."""

KINDS = {
    "types": "type",
    "keys": "key",
    "roles": "role",
    "bindings": "binding",
    "issuers": "issuer",
    "namespaces": "namespace",
}
"""Each kind, and the word for one document of that kind."""
WORDS = {**KINDS, "secrets": "secret"}
"""The same, with the kind that has commands of its own."""


_PLURALS = {one: kind for kind, one in WORDS.items()}


def word_of(kind: str) -> str:
    """Return the word for one document of a kind; the kind itself if it is unknown."""
    return WORDS.get(kind, kind)


def document_named(text: str) -> str:
    """Return ``kind:name`` with the plural of the kind; other texts stay as they are."""
    word, colon, name = text.partition(":")
    return f"{_PLURALS.get(word, word)}:{name}" if colon else text
