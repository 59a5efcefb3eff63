"""The public keys of issuers, downloaded beside requests.

A request never waits for a download. Keys are downloaded again after `FRESH`, and earlier if a
token names an unknown key, but not within `AGAIN` of the last try. If downloads fail, the last
keys are used for `KEPT`.
"""

import asyncio
import logging
import warnings
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rota.core.errors import Kind, Refused
from rota.core.timing.instants import HOUR, SECOND, Duration, Instant
from rota.node.access.issuer import Issuer, JsonWebKey
from rota.node.access.oidc.key_download import DownloadFailed, download_keys
from rota.node.system.clock import Clock

log = logging.getLogger(__name__)

if TYPE_CHECKING:  # For speed, not to avoid a cycle.
    from joserfc.jwk import ECKey, OKPKey, RSAKey

    PublicKey = RSAKey | ECKey | OKPKey

FRESH = Duration(600 * SECOND)
AGAIN = Duration(30 * SECOND)
KEPT = Duration(24 * HOUR)


class KeysNotHere(Refused):
    """This node has no keys of an issuer yet.

    Args:
        issuer: The name of the issuer.
    """

    def __init__(self, issuer: str) -> None:
        super().__init__(
            Kind.UNAVAILABLE,
            "not_ready",
            f"this node has not read the key of the token from the issuer {issuer!r} yet; try "
            "again",
            retry_after_s=1,
        )


def _no_keys() -> "dict[str, PublicKey]":
    return {}


@dataclass(slots=True)
class _Known:
    """What is known of an issuer.

    Attributes:
        issuer: Its definition.
        keys: Its keys by id.
        read_at: When they were downloaded; None before.
        tried_at: When a download last began; None before.
        is_wanted: Whether a token names an unknown key.
    """

    issuer: Issuer
    keys: "dict[str, PublicKey]" = field(default_factory=_no_keys)
    read_at: Instant | None = None
    tried_at: Instant | None = None
    is_wanted: bool = True


class SigningKeys:
    """The public keys of all issuers.

    Args:
        clock: The clocks of the node.
        download: Returns the keys that an issuer publishes.
    """

    def __init__(
        self,
        clock: Clock,
        download: Callable[[Issuer], Awaitable[Iterable[JsonWebKey]]] = download_keys,
    ) -> None:
        self._clock = clock
        self._download = download
        self._known: dict[str, _Known] = {}
        self._due = asyncio.Event()

    def set_issuers(self, issuers: Mapping[str, Issuer]) -> None:
        """Replace the issuers; an issuer with a changed definition begins without keys."""
        for name in self._known.keys() - issuers.keys():
            del self._known[name]
        for name, issuer in issuers.items():
            before = self._known.get(name)
            if before is None or before.issuer != issuer:
                known = self._known[name] = _Known(issuer)
                if issuer.keys is not None:
                    known.keys, known.is_wanted = usable_keys(issuer.keys), False
        self._due.set()

    def key(self, issuer: Issuer, key_id: str) -> "PublicKey | None":
        """Return the key with an id; without an id, the only key; None if there is none.

        Raises:
            KeysNotHere: A download is due, and may have the key.
        """
        known = self._known.get(issuer.name)
        if known is None or known.issuer != issuer:
            return None
        now = self._clock.elapsed()
        if known.read_at is not None and now > known.read_at + KEPT:
            known.keys.clear()
        found = known.keys.get(key_id)
        if not key_id and len(known.keys) == 1:
            [found] = known.keys.values()
        if found is None and issuer.keys is None:
            known.is_wanted = True
            if _may_try(known, now):
                self._due.set()
                raise KeysNotHere(issuer.name)
            if known.read_at is None:
                raise KeysNotHere(issuer.name)
        return found

    async def run(self) -> None:
        """Download keys when they are due, until cancelled."""
        while True:
            self._due.clear()
            for known in tuple(self._known.values()):
                if known.issuer.keys is None and self._is_due(known):
                    await self._read(known)
            with suppress(TimeoutError):
                async with asyncio.timeout(AGAIN / SECOND):
                    await self._due.wait()

    def _is_due(self, known: _Known) -> bool:
        now = self._clock.elapsed()
        is_old = known.read_at is None or now >= known.read_at + FRESH
        return (is_old or known.is_wanted) and _may_try(known, now)

    async def _read(self, known: _Known) -> None:
        known.tried_at = self._clock.elapsed()
        try:
            found = await self._download(known.issuer)
        except DownloadFailed as failure:
            log.warning(
                "keys of issuer not read",
                extra={"issuer": known.issuer.name, "reason": str(failure)},
            )
            return
        known.keys, known.read_at, known.is_wanted = usable_keys(found), known.tried_at, False


def _may_try(known: _Known, now: Instant) -> bool:
    return known.tried_at is None or now >= known.tried_at + AGAIN


def usable_keys(found: Iterable[JsonWebKey]) -> "dict[str, PublicKey]":
    """Return the public keys for signatures among *found*, by id; others are omitted."""
    keys: dict[str, PublicKey] = {}
    for each in found:
        key = _imported(each)
        if key is not None:
            key_id = each.get("kid", "")
            keys[key_id if isinstance(key_id, str) else ""] = key
    return keys


def _imported(found: JsonWebKey) -> "PublicKey | None":
    """Return a key; None if it is not for signatures, is malformed, or is too short."""
    # Imported here, as most nodes have no issuer, and the import takes a tenth of the start.
    from joserfc.errors import JoseError, SecurityWarning
    from joserfc.jwk import ECKey, JWKRegistry, OKPKey, RSAKey

    if found.get("kty") not in ("RSA", "EC", "OKP") or found.get("use", "sig") != "sig":
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", SecurityWarning)
            key = JWKRegistry.import_key(dict(found))
    except (JoseError, SecurityWarning, ValueError, TypeError, KeyError):
        return None
    return key if isinstance(key, RSAKey | ECKey | OKPKey) else None
