"""Parse the compact form of a signed token (RFC 7515 §3.1), strictly, before any cryptography.

Several spellings or readings of one token would let a cache or another parser disagree. So a token is three segments
of canonical base64url without padding; UTF-8 without byte order mark or surrogates; objects without duplicate members,
at most 16 deep.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from typing import Any, Final

from gateway import jsonrpc
from gateway.errors import ParseError
from gateway.jsonrpc import BadMessage
from gateway.jsonrpc.bounds import is_deeper_than


class InvalidToken(Exception):
    """Raised for a token that is not accepted. The text is for the log alone, and quotes no value of the token."""

    def __init__(self, reason: str, *, expired: bool = False) -> None:
        super().__init__(reason)
        self.expired = expired


class InvalidProof(Exception):
    """Raised for a DPoP proof that does not prove possession (RFC 9449 §4.3). The text is for the log alone."""


class Undecidable(Exception):
    """Raised where a token cannot be verified now; the text is for the log alone. ``retry_after`` is seconds."""

    def __init__(self, reason: str, retry_after: int = 5) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


MAX_BYTES: Final = 8 * 1024
MAX_DEPTH: Final = 16
MAX_KID: Final = 256
_FORM = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)")
# An attacker chooses the keys in an access token's header (jwk, jku, x5c), so they are never used (RFC 8725 §3.10).
# A member that changes the meaning of the others is refused.
_CHANGES_MEANING: Final = ("crit", "zip", "enc", "b64")


@dataclass(frozen=True, slots=True)
class CompactToken:
    """Hold the parts of a token; nothing is verified yet. ``signing_input`` is what the signature covers."""

    header: dict[str, Any]
    claims: dict[str, Any]
    signing_input: bytes
    signature: bytes

    @property
    def alg(self) -> str:
        alg = self.header.get("alg")
        if not isinstance(alg, str):
            raise InvalidToken("the header has no alg")
        return alg

    @property
    def kid(self) -> str | None:
        kid = self.header.get("kid")
        if kid is None and "kid" not in self.header:
            return None
        if not isinstance(kid, str) or not 0 < len(kid) <= MAX_KID:
            raise InvalidToken(f"the header's kid is not a string of 1 to {MAX_KID} characters")
        return kid

    @property
    def typ(self) -> str | None:
        """Return the header's ``typ``, in lower case, without ``application/``; None where it is absent."""
        typ = self.header.get("typ")
        if typ is None and "typ" not in self.header:
            return None
        if not isinstance(typ, str):
            raise InvalidToken("the header's typ is not a string")
        return typ.lower().removeprefix("application/")


def has_jwt_form(raw: str) -> bool:
    """Return whether a token has the outer form of a JWT, rather than being opaque."""
    return _FORM.fullmatch(raw) is not None and raw.startswith("eyJ")  # a JSON object, {", in base64url


def parse_compact(raw: str) -> CompactToken:
    """Return the parts of a token. Raises :class:`InvalidToken`."""
    if len(raw) > MAX_BYTES:
        raise InvalidToken("longer than 8 KiB")
    match = _FORM.fullmatch(raw)
    if match is None:
        raise InvalidToken("not three segments of base64url")
    header = _object(match[1], "header")
    for name in _CHANGES_MEANING:
        if name in header:
            raise InvalidToken(f"the header has {name}, which is not understood here")
    return CompactToken(header, _object(match[2], "claims"), raw[: match.end(2)].encode(), _bytes(match[3]))


def _object(segment: str, what: str) -> dict[str, Any]:
    try:
        value = jsonrpc.decode_strictly(_bytes(segment))
    except ParseError:
        raise InvalidToken(f"the {what}: not JSON in UTF-8") from None
    except BadMessage as error:
        raise InvalidToken(f"the {what}: {error.message}") from None
    if not isinstance(value, dict):
        raise InvalidToken(f"the {what}: not a JSON object")
    if is_deeper_than(value, MAX_DEPTH):
        raise InvalidToken(f"the {what}: nested deeper than {MAX_DEPTH} levels")
    return value


def _bytes(segment: str) -> bytes:
    # The decoder ignores stray bits, so the result is encoded again and compared. No segment has a length of 4n + 1.
    raw = urlsafe_b64decode(segment + "=" * (-len(segment) % 4)) if len(segment) % 4 != 1 else b""
    if urlsafe_b64encode(raw).rstrip(b"=").decode() != segment:
        raise InvalidToken("a segment is not canonical base64url")
    return raw
