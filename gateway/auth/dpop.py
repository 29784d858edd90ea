"""Check proofs of possession (RFC 9449 §4.3): a token that is bound to a key needs a proof for each request, valid
once, for a minute. The store that replicas share has the used ones."""

import hashlib
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from gateway.auth import compact
from gateway.auth.compact import InvalidProof, InvalidToken
from gateway.auth.keys import UnusableKey, parse_key
from gateway.store import Store

ALGORITHMS: Final = ("ES256", "RS256", "PS256", "EdDSA")
LIFETIME: Final = 60.0
"""Seconds by which a proof's iat may differ from now, either way."""
MAX_JTI: Final = 128


class ProofChecker:
    """Check proofs for one origin: the gateway's public one, not what a proxy says."""

    def __init__(self, origin: str, store: Store) -> None:
        self._origin = origin
        self._store = store

    async def check_proof(self, proof: str, *, method: str, path: str, token: str, bound_to: str) -> None:
        """Check a proof; ``path`` is the request's, without its query. Raises :class:`InvalidProof`."""
        try:
            parsed = compact.parse_compact(proof)
            alg, typ = parsed.alg, parsed.typ
        except InvalidToken as error:
            raise InvalidProof(str(error)) from None
        if typ != "dpop+jwt" or alg not in ALGORITHMS:
            raise InvalidProof("its typ or alg is not that of a proof")
        jwk = parsed.header.get("jwk")
        if not isinstance(jwk, Mapping):
            raise InvalidProof("its header has no jwk")
        try:
            key = parse_key({**jwk, "alg": alg})
        except UnusableKey as error:
            raise InvalidProof(f"its jwk: {error}") from None
        if key.thumbprint != bound_to:
            raise InvalidProof("its key is not the one that the token is bound to")
        self._check_claims(parsed.claims, method, path, token)
        if not key.verifies(parsed.signing_input, parsed.signature):
            raise InvalidProof("its signature is wrong")
        # The store comes last, so that only a client with the key can fill it.
        jti = f"{bound_to}:{parsed.claims['jti']}"
        if not await self._store.add(f"dpop:{_digest(jti.encode())}", 2 * LIFETIME):
            raise InvalidProof("it was used before")

    def _check_claims(self, claims: Mapping[str, Any], method: str, path: str, token: str) -> None:
        jti, issued = claims.get("jti"), claims.get("iat")
        if not isinstance(jti, str) or not 0 < len(jti) <= MAX_JTI:
            raise InvalidProof(f"its jti is not a string of 1 to {MAX_JTI} characters")
        now = time.time()
        # Compared, not subtracted: an integer may be too large for a float.
        if isinstance(issued, bool) or not isinstance(issued, int | float):
            raise InvalidProof("its iat is not a NumericDate")
        if not now - LIFETIME <= issued <= now + LIFETIME:
            raise InvalidProof(f"its iat differs from now by more than {LIFETIME:g} seconds")
        if claims.get("htm") != method:
            raise InvalidProof("its htm is not the request's method")
        if claims.get("ath") != _digest(token.encode()):
            raise InvalidProof("its ath is not the hash of the token")
        if _normalize(claims.get("htu")) != _normalize(f"{self._origin}{path}"):
            raise InvalidProof("its htu is not the request's address")


def _normalize(url: Any) -> tuple[str, str, int | None, str] | None:
    """Return the parts of a URL to compare, without query, fragment and default port; None for what is not a URL."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except (ValueError, TypeError, AttributeError):
        return None
    scheme = parts.scheme.lower()
    default = {"http": 80, "https": 443}.get(scheme)
    return scheme, (parts.hostname or "").lower(), None if port == default else port, parts.path


def _digest(raw: bytes) -> str:
    return urlsafe_b64encode(hashlib.sha256(raw).digest()).rstrip(b"=").decode()
