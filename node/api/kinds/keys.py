"""Keys: the tokens of a principal. Only hashes are stored, and no response has them."""

import re
from collections.abc import Sequence
from ipaddress import ip_network

import msgspec
from msgspec.structs import replace

from rota.core.decoding import UNDECODABLE
from rota.core.errors import Problem
from rota.core.model.ids import NAME_RULE, is_name
from rota.core.model.shared_document import Definition
from rota.core.quoting import in_quotes
from rota.core.timing.instants import parse_instant
from rota.node.access.access_table import KEYS as KIND
from rota.node.access.verbs import Verb
from rota.node.api.kinds.document_kind import DocumentKind
from rota.node.api.requests.permissions import in_cluster
from rota.wire.documents import TOKENS_MAX, KeyBody, TokenBody
from rota.wire.tokens import ID_LENGTH

_ID = re.compile(rf"[A-Za-z0-9]{{{ID_LENGTH}}}", re.ASCII)
_HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)


def problems_of(name: str, body: KeyBody) -> list[Problem]:
    """Return the errors of a key."""
    del name
    problems: list[Problem] = []
    if not is_name(body.principal):
        detail = f"{in_quotes(body.principal)} is not a name: {NAME_RULE}"
        problems.append(Problem("/principal", detail))
    if len(body.tokens) > TOKENS_MAX:
        detail = f"{len(body.tokens)} tokens are too many; a key has at most {TOKENS_MAX}"
        problems.append(Problem("/tokens", detail))
    ids = [each.id for each in body.tokens]
    for number, token in enumerate(body.tokens):
        problems += _problems_of_token(token, f"/tokens/{number}")
        if token.id in ids[:number]:
            detail = f"the id {in_quotes(token.id)} is repeated; give it once"
            problems.append(Problem(f"/tokens/{number}/id", detail))
    for number, network in enumerate(body.from_):
        problems += problems_of_network(network, f"/from/{number}")
    return problems


def _problems_of_token(token: TokenBody, pointer: str) -> Sequence[Problem]:
    problems: list[Problem] = []
    if not _ID.fullmatch(token.id):
        detail = f"{in_quotes(token.id)} is not the id of a token: {ID_LENGTH} letters and digits"
        problems.append(Problem(f"{pointer}/id", detail))
    if not token.hash:
        detail = "is missing, and the key has no token with this id; create tokens with POST"
        problems.append(Problem(f"{pointer}/hash", detail))
    elif not _HASH.fullmatch(token.hash):
        # The value is not shown: it may be a token.
        detail = "is not a SHA-256 in 64 hexadecimal digits, lower case"
        problems.append(Problem(f"{pointer}/hash", detail))
    if token.expires_at is not None:
        try:
            parse_instant(token.expires_at)
        except ValueError as error:
            problems.append(Problem(f"{pointer}/expiresAt", str(error)))
    return problems


def problems_of_network(text: str, pointer: str) -> Sequence[Problem]:
    """Return the errors of a network."""
    try:
        ip_network(text)
    except ValueError as error:
        return [Problem(pointer, f"{error}; write a network such as 10.0.0.0/8")]
    return []


def completed(body: KeyBody, before: Definition) -> KeyBody:
    """Return *body*, whose tokens without a hash get the hash stored under their id."""
    try:
        stored = {each.id: each.hash for each in msgspec.convert(before, KeyBody).tokens}
    except UNDECODABLE:
        return body
    tokens = [
        each if each.hash else replace(each, hash=stored.get(each.id, "")) for each in body.tokens
    ]
    return replace(body, tokens=tokens)


def shown(definition: Definition) -> Definition:
    """Return a key without its hashes."""
    tokens = [
        {name: value for name, value in each.items() if name != "hash"}
        for each in definition.get("tokens", ())
    ]
    return {**definition, "tokens": tokens}


KEYS = DocumentKind(
    plural=KIND,
    singular="key",
    title="Keys",
    about="key",
    not_found_code="key_not_found",
    invalid_code="invalid_key",
    body=KeyBody,
    reading=in_cluster(Verb.ADMIN, Verb.AUDIT),
    writing=in_cluster(Verb.ADMIN),
    problems_of=problems_of,
    completed=completed,
    shown=shown,
)
