"""Parse an issuer's keys: which members of a JWK Set (RFC 7517) may verify tokens, and which key fits a token.

The set is not trusted: symmetric, private, weak and broken keys are left out, with the reason. A key has one algorithm
(RFC 8725 §3.1): the one that it names, else the usual one of its type.
"""

import hashlib
import math
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from gateway import jsonrpc
from gateway.text import excerpt

MAX_KEYS: Final = 100
MAX_CANDIDATES: Final = 4  # keys with one kid, each of which costs a check of the signature
MIN_RSA_BITS: Final = 2048
MAX_RSA_BITS: Final = 8192
"""The time to verify grows with the square of the size."""
_CURVES: Final = {"secp256r1": ("ES256",), "secp384r1": ("ES384",), "secp521r1": ("ES512",)}
_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
ALGORITHMS: Final = frozenset((*_RSA, *(alg for algs in _CURVES.values() for alg in algs), "EdDSA"))
"""Names of those that are accepted: asymmetric ones, so that no public key is taken for a secret (RFC 8725 §2.1)."""
# Moduli that one generation of smart cards made are recognized by their remainders (CVE-2017-15361, "ROCA").
_ROCA_PRIMES: Final = (11, 13, 17, 19, 37, 53, 61, 71, 73, 79, 97, 103, 107, 109, 127, 151, 157)
_ROCA_REMAINDERS: Final = {p: frozenset(pow(65537, power, p) for power in range(p)) for p in _ROCA_PRIMES}
_SMALL_PRIMES: Final = math.prod(p for p in range(2, 752) if all(p % q for q in range(2, math.isqrt(p) + 1)))
# Members of a public key (RFC 7638 §3.2, RFC 8037 §2).
_MEMBERS: Final = {"RSA": ("e", "kty", "n"), "EC": ("crv", "kty", "x", "y"), "OKP": ("crv", "kty", "x")}
# Members that only the owner of a key has (RFC 7518 §6.2.2, §6.3.2, §6.4; RFC 8037 §2).
_PRIVATE: Final = frozenset(("d", "p", "q", "dp", "dq", "qi", "oth", "k"))
# The field and the curve -x² + y² = 1 + dx²y² of Ed25519 (RFC 8032 §5.1).
_FIELD: Final = 2**255 - 19
_CURVE_D: Final = -121665 * pow(121666, -1, _FIELD)


class UnusableKey(Exception):
    """Raised for a member of a key set that must not verify tokens; the text says why."""


@dataclass(frozen=True, slots=True)
class Key:
    """Hold a public key and its one algorithm. ``material`` are the members that make the key."""

    kid: str | None
    alg: str
    material: tuple[tuple[str, Any], ...] = field(repr=False)
    _key: Any = field(repr=False, compare=False)
    _algorithm: Any = field(repr=False, compare=False)

    @property
    def thumbprint(self) -> str:
        """Return the SHA-256 thumbprint (RFC 7638) in base64url."""
        digest = hashlib.sha256(jsonrpc.encode_canonical(dict(self.material))).digest()
        return urlsafe_b64encode(digest).rstrip(b"=").decode()

    def verifies(self, signed: bytes, signature: bytes) -> bool:
        return bool(self._algorithm.verify(signed, self._key, signature))


@dataclass(frozen=True, slots=True)
class KeySet:
    """Hold the usable keys of a set, and why the others were left out."""

    keys: tuple[Key, ...]
    ignored: tuple[str, ...] = ()

    def candidates(self, kid: str | None, alg: str) -> tuple[Key, ...]:
        """Return the keys that may have signed a token. Without a ``kid``, exactly one key must fit."""
        if kid is None:
            fitting = tuple(key for key in self.keys if key.alg == alg)
            return fitting if len(fitting) == 1 else ()
        return tuple(key for key in self.keys if key.kid == kid and key.alg == alg)[:MAX_CANDIDATES]


def parse_key_set(document: Any) -> KeySet:
    """Return the keys of a JWK Set. Raises :class:`ValueError` for another document, and without a usable key."""
    members = document.get("keys") if isinstance(document, Mapping) else None
    if not isinstance(members, list):
        raise ValueError('not a JSON object with a list "keys"')  # noqa: TRY004, one kind of failure for callers
    if len(members) > MAX_KEYS:
        raise ValueError(f"more than {MAX_KEYS} keys")
    keys, ignored = [], []
    for number, member in enumerate(members):
        try:
            keys.append(parse_key(member))
        except UnusableKey as error:
            kid = member.get("kid") if isinstance(member, Mapping) else None
            shown = " ".join(excerpt(kid, 64).split()) if isinstance(kid, str) else f"number {number}"
            ignored.append(f"{shown}: {error}")
    if not keys:
        raise ValueError("no usable key: " + ("; ".join(ignored[:3]) or "the list is empty"))
    return KeySet(tuple(keys), tuple(ignored))


def parse_key(member: Any) -> Key:
    """Return one member of a key set. Raises :class:`UnusableKey`."""
    if not isinstance(member, Mapping):
        raise UnusableKey("it is not a JSON object")
    if member.get("use", "sig") != "sig":
        raise UnusableKey("its use is not sig")
    operations = member.get("key_ops", ["verify"])
    if not isinstance(operations, list) or "verify" not in operations:
        raise UnusableKey("its key_ops lack verify")
    members = _MEMBERS.get(str(member.get("kty")))
    if members is None:
        raise UnusableKey("it is not an asymmetric key")
    if not _PRIVATE.isdisjoint(member):
        raise UnusableKey("it is a private key; the issuer should replace it at once")
    kid = member.get("kid")
    if kid is not None and not isinstance(kid, str):
        raise UnusableKey("its kid is not a string")
    public = {name: value for name, value in member.items() if name in members}
    named = member.get("alg")
    try:
        # With this algorithm PyJWT reads keys of other curves, too: the parsed key itself tells which ones fit it.
        parsed = jwt.PyJWK(public, algorithm="EdDSA" if public["kty"] == "OKP" else None)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError, AttributeError):
        raise UnusableKey("it is not a valid key") from None
    fitting = _algorithms(parsed.key)
    alg = fitting[0] if named is None else named
    if alg not in fitting:
        raise UnusableKey("its alg does not fit its type")
    return Key(kid, alg, tuple(sorted(public.items())), parsed.key, jwt.get_algorithm_by_name(alg))


def _algorithms(key: Any) -> tuple[str, ...]:
    """Return the algorithms that fit a key, the usual one first. Raises :class:`UnusableKey`."""
    if isinstance(key, RSAPublicKey):
        numbers = key.public_numbers()
        if not MIN_RSA_BITS <= key.key_size <= MAX_RSA_BITS:
            raise UnusableKey(f"RSA keys must have {MIN_RSA_BITS} to {MAX_RSA_BITS} bits")
        if numbers.e < 65537 or numbers.e.bit_length() > 64:
            raise UnusableKey("its RSA exponent is unsafe")
        if math.gcd(numbers.n, _SMALL_PRIMES) > 1:
            raise UnusableKey("its RSA modulus has a small factor")
        if all(numbers.n % p in _ROCA_REMAINDERS[p] for p in _ROCA_PRIMES):
            raise UnusableKey("it was made by a broken generator (CVE-2017-15361)")
        return _RSA
    if isinstance(key, EllipticCurvePublicKey) and key.curve.name in _CURVES:
        return _CURVES[key.curve.name]
    if isinstance(key, Ed25519PublicKey):
        if _has_small_order(key.public_bytes_raw()):
            raise UnusableKey("its point is of small order, so that anybody can sign for it")
        return ("EdDSA",)
    raise UnusableKey("its curve is not supported")


def _has_small_order(raw: bytes) -> bool:
    """Return whether the order of an Ed25519 point divides 8, or its y is beyond the field (RFC 8032 §5.1.3). Points of
    order 1, 2 and 4 have y = 1, -1 and 0; those of order 8 double to y = 0, so x² = -y² and dy⁴ + 2y² = 1."""
    y = int.from_bytes(raw, "little") & (1 << 255) - 1
    return y >= _FIELD or y in (0, 1, _FIELD - 1) or (_CURVE_D * y**4 + 2 * y**2 - 1) % _FIELD == 0
