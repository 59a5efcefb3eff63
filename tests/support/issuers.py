"""An issuer of JSON Web Tokens, with keys of its own, and its web site."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from rota.core.timing.instants import SECOND
from rota.node.system.clock import SystemClock

Json = Any  # Any: claims and definitions, which tests make as they need.


def seconds() -> int:
    """Return the time in seconds, as claims have it."""
    return SystemClock().now() // SECOND


class SomeIssuer:
    """An issuer with one key or several.

    Args:
        url: Its address, the claim ``iss``.

    Attributes:
        keys: Its private keys by id.
        asked: The paths that were requested.
        published: The ids of the keys that it publishes; None for all.
        status: The status of its answers.
    """

    def __init__(self, url: str = "https://id.example.org") -> None:
        self.url = url
        self.keys: dict[str, ECKey | RSAKey] = {}
        self.asked: list[str] = []
        self.published: set[str] | None = None
        self.status = 200
        self.add_key("k1")

    def add_key(self, key_id: str) -> None:
        """Make a further key."""
        self.keys[key_id] = ECKey.generate_key("P-256", {"kid": key_id})

    @property
    def public_keys(self) -> list[Json]:
        """The public keys, as a JSON Web Key Set has them."""
        return [
            {**key.as_dict(private=False), "kid": key_id}
            for key_id, key in self.keys.items()
            if self.published is None or key_id in self.published
        ]

    def claims(self, **changes: Json) -> Json:
        """Return the claims of a valid token; a claim that is None is left out."""
        now = seconds()
        claims = {
            "iss": self.url,
            "aud": "rota",
            "sub": "u1",
            "email": "ana@example.org",
            "groups": ["ops"],
            "iat": now,
            "exp": now + 600,
            **changes,
        }
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, key_id: str = "k1", algorithm: str = "ES256", **changes: Json) -> str:
        """Return a token that is signed with one of the keys."""
        header = {"alg": algorithm, "kid": key_id}
        return jwt.encode(header, self.claims(**changes), self.keys[key_id], [algorithm])

    def definition(self, **changes: Json) -> Json:
        """Return the definition of this issuer in a document."""
        return {"issuer": self.url, "audiences": ["rota"], "nameClaim": "email", **changes}


@asynccontextmanager
async def issuer_site() -> AsyncGenerator[SomeIssuer]:
    """Serve an issuer on loopback."""
    app = web.Application()
    issuer = SomeIssuer()

    async def about(request: web.Request) -> web.Response:
        issuer.asked.append(request.path)
        document = {"issuer": issuer.url, "jwks_uri": f"{issuer.url}/keys"}
        return web.json_response(document, status=issuer.status)

    async def keys(request: web.Request) -> web.Response:
        issuer.asked.append(request.path)
        return web.json_response({"keys": issuer.public_keys}, status=issuer.status)

    app.router.add_get("/.well-known/openid-configuration", about)
    app.router.add_get("/keys", keys)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    issuer.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield issuer
    finally:
        await runner.cleanup()
