"""API keys: texts that the gateway itself gives out, for callers without an issuer.

A key is ``jmg_``, 43 digits of base 62 for 256 random bits, and 6 for their CRC-32, by which scanners of secrets tell a
key from other text. The key file has its SHA-256: nobody guesses 256 bits, so a slow hash would slow the gateway alone.
"""

import hashlib
import secrets
import string
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final

from gateway.auth.claims import scope_closure
from gateway.auth.compact import InvalidToken
from gateway.auth.verifier import VerifiedToken
from gateway.model import Principal
from gateway.settings.auth import ApiKey

PREFIX: Final = "jmg_"
ISSUER: Final = "keys"
"""The issuer of a key's principal. Those of tokens are URLs."""
_DIGITS: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase
_RANDOM: Final = 43
_CHECK: Final = 6
_KEEP: Final = 60.0  # seconds for which a verified key is cached, as tokens are


def new_key() -> str:
    """Return a new key of 256 random bits."""
    digits = _base62(secrets.randbits(256), _RANDOM)
    return PREFIX + digits + _checksum(digits)


def is_key(text: str) -> bool:
    """Return whether a text is decided by the key file alone. It is never shown to an issuer or to the service, also
    where the case was lost on its way."""
    return text[: len(PREFIX)].lower() == PREFIX


def digest_of(key: str) -> str:
    """Return what the key file has of a key: its SHA-256 in hexadecimal digits."""
    return hashlib.sha256(key.encode()).hexdigest()


@dataclass
class KeyRing:
    """Verify keys, by their digests. Two rings are equal if they accept the same keys for the same scopes."""

    principals: Mapping[str, Principal] = field(default_factory=dict)

    def successor(self, keys: Iterable[ApiKey], implies: Mapping[str, Iterable[str]]) -> "KeyRing":
        """Return the ring of these keys, this one where it is equal. A key that both have keeps its principal."""
        implied, principals = scope_closure(implies), dict[str, Principal]()
        for key in keys:
            made, known = _principal_of(key, implied), self.principals.get(key.sha256)
            principals[key.sha256] = known if known == made else made
        return self if principals == self.principals else KeyRing(principals)

    def lessen(self, standing: Mapping[str, Iterable[ApiKey]], implies: Mapping[str, Iterable[str]]) -> int:
        """Take away what the keys that still stand, by their digests, no longer have: all, scopes, or a later end. They
        give nothing. Return of how many keys something was taken."""
        implied, left = scope_closure(implies), dict[str, Principal]()
        for digest, principal in self.principals.items():
            if digest in standing:
                left[digest] = _lessened(principal, [_principal_of(key, implied) for key in standing[digest]])
        taken = self.end_all_but(KeyRing(left))
        self.principals = left
        return taken

    def verify_key(self, raw: str) -> VerifiedToken:
        """Return the principal of a key. Raises :class:`InvalidToken`."""
        digits, checksum = raw[len(PREFIX) : -_CHECK], raw[-_CHECK:]
        if len(digits) != _RANDOM or _checksum(digits) != checksum:
            raise InvalidToken("it is not a whole key: copy all of it")
        principal = self.principals.get(digest_of(raw))
        if principal is None:
            raise InvalidToken("it is none of the keys of auth.keys.file, or it was revoked")
        left = principal.expires - time.time()
        if left <= 0:
            raise InvalidToken("the key has expired", expired=True)
        return VerifiedToken(principal, None, min(_KEEP, left), lambda: True)

    def end_all_but(self, successor: "KeyRing") -> int:
        """End the principals whose keys the successor does not accept, with their streams. Return how many."""
        kept = set(map(id, successor.principals.values()))
        revoked = [principal for principal in self.principals.values() if id(principal) not in kept]
        for principal in revoked:
            principal.end()
        return len(revoked)


def _principal_of(key: ApiKey, implied: Mapping[str, frozenset[str]]) -> Principal:
    scopes = frozenset(key.scopes).union(*(implied.get(scope, ()) for scope in key.scopes))
    expires = key.expires.timestamp() if key.expires else inf
    # Which of a name's two keys it was is its client, so that the log and the audit say it.
    return Principal(ISSUER, key.name, key.short, scopes, expires, None)


def _lessened(principal: Principal, others: Sequence[Principal]) -> Principal:
    """Return a principal with no scope, and no later end, than it and all others have; itself if it is no other."""
    scopes = principal.scopes.intersection(*(other.scopes for other in others))
    expires = min(principal.expires, *(other.expires for other in others), inf)
    less = Principal(ISSUER, principal.subject, principal.client, scopes, expires, None)
    return principal if less == principal else less


def _checksum(digits: str) -> str:
    return _base62(zlib.crc32(digits.encode("utf-8", "surrogateescape")), _CHECK)


def _base62(number: int, width: int) -> str:
    digits = []
    for _ in range(width):
        number, digit = divmod(number, 62)
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits))
