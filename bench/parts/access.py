"""Benchmark of authentication and authorization of one request, alone. ``make bench-parts``.

A node with 10,000 keys and 1,000 bindings authenticates the same token repeatedly, and checks a
verb in a namespace. The result is the best of many short runs, since a busy machine affects the
best run little.
"""

from timeit import repeat

from bench.parts.figures import show
from rota.core.model.shared_document import BINDINGS, DocumentKey, SharedDocument
from rota.node.access.access_table import KEYS, AccessTable
from rota.node.access.authenticator import Authenticator, LoginFailed
from rota.node.access.verbs import Verb
from rota.node.links.identity_proof import draw_bytes
from rota.node.system.clock import SystemClock
from rota.node.system.entropy import SystemEntropy
from rota.wire.documents import Json
from rota.wire.tokens import ID_BYTES, SECRET_BYTES, Token, mint

RUNS, REQUESTS = 400, 1_000
KEY_COUNT, BINDING_COUNT = 10_000, 1_000
REMOTE = "10.1.2.3"


def filled() -> tuple[AccessTable, Token]:
    """Return a table with keys and bindings, and a token of one of the keys."""
    table, entropy = AccessTable(), SystemEntropy()
    token = mint(draw_bytes(entropy, ID_BYTES + SECRET_BYTES))
    for number in range(KEY_COUNT):
        token = mint(draw_bytes(entropy, ID_BYTES + SECRET_BYTES))
        stored = {"id": token.id, "hash": token.hash, "expiresAt": "2200-01-01T00:00:00Z"}
        key = {"principal": f"p{number}", "tokens": [stored], "from": ["10.0.0.0/8"]}
        put(table, KEYS, f"k{number}", key)
    for number in range(BINDING_COUNT):
        subject = f"principal:p{KEY_COUNT - 1 - number}"
        binding = {"subject": subject, "role": "editor", "namespaces": ["team-*"]}
        put(table, BINDINGS, f"b{number}", binding)
    return table, token


def put(table: AccessTable, kind: str, name: str, definition: dict[str, Json]) -> None:
    """Put a document into the table."""
    key = DocumentKey(kind, name)
    table.changed(key, SharedDocument(kind=kind, name=name, version=1, definition=definition))


def best_us(table: AccessTable, authorization: str, *, is_valid: bool) -> float:
    """Return the microseconds that the checks of a request take, in the best of `RUNS` runs."""
    authenticator = Authenticator(table, SystemClock())

    def check() -> None:
        for _ in range(REQUESTS):
            principal = authenticator.authenticate(authorization, REMOTE)
            assert principal.may(Verb.RUN, "team-a")

    def fail() -> None:
        for _ in range(REQUESTS):
            try:
                authenticator.authenticate(authorization, REMOTE)
            except LoginFailed:
                continue
            except Exception:
                continue

    return min(repeat(check if is_valid else fail, number=1, repeat=RUNS)) * 1e6 / REQUESTS


def main() -> None:
    """Measure, and print the figures."""
    table, token = filled()
    mistyped = f"Bearer {token.text[:-1]}{'0' if token.text[-1] != '0' else '1'}"
    print(f"authentication and authorization, {KEY_COUNT:,} keys, best of {RUNS} runs")
    show(
        {
            "scenario": scenario,
            "us": round(best_us(table, authorization, is_valid=is_valid), 2),
        }
        for scenario, authorization, is_valid in (
            ("token with an expiry and a network", f"Bearer {token.text}", True),
            ("mistyped token", mistyped, False),
        )
    )


if __name__ == "__main__":
    main()
