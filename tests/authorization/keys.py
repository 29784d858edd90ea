"""Keys to sign with, sound ones and broken ones, as RFC 7517 writes them and with signatures of RFC 7518.

Signing goes to ``cryptography`` directly: it is to disagree with the gateway's library where that library is wrong, and
it signs with what no library would, such as ES256 with a key on another curve.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import secrets
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

Secret: TypeAlias = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | bytes
_CURVES: Final[dict[str, type[ec.SECP256R1 | ec.SECP384R1 | ec.SECP521R1 | ec.SECP256K1]]] = {
    "ES256": ec.SECP256R1,
    "ES384": ec.SECP384R1,
    "ES512": ec.SECP521R1,
    "ES256K": ec.SECP256K1,
}
_HASHES: Final[dict[str, type[hashes.SHA256 | hashes.SHA384 | hashes.SHA512]]] = {
    "256": hashes.SHA256,
    "384": hashes.SHA384,
    "512": hashes.SHA512,
}
_THUMBPRINT_MEMBERS: Final = ("crv", "e", "k", "kty", "n", "x", "y")


def b64(raw: bytes) -> str:
    """base64url without padding."""
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


@dataclass(frozen=True, eq=False, repr=False)
class Key:
    """A key that signs; ``alg`` is what it is published for."""

    kid: str
    alg: str
    secret: Secret

    @property
    def jwk(self) -> dict[str, Any]:
        """The public part, or all of a symmetric key. A new dict each time: change it as you like."""
        public = self.secret if isinstance(self.secret, bytes) else self.secret.public_key()
        return {**_members(public), "kid": self.kid, "alg": self.alg, "use": "sig"}

    @property
    def private_jwk(self) -> dict[str, Any]:
        return {**_members(self.secret), "kid": self.kid, "alg": self.alg, "use": "sig"}

    @property
    def public_pem(self) -> bytes:
        assert not isinstance(self.secret, bytes), "a symmetric key has no public part"
        return self.secret.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    @property
    def thumbprint(self) -> str:
        """RFC 7638, SHA-256."""
        jwk = self.jwk
        members = {name: jwk[name] for name in _THUMBPRINT_MEMBERS if name in jwk}
        return b64(hashlib.sha256(json.dumps(members, separators=(",", ":")).encode()).digest())

    def sign(self, data: bytes, alg: str | None = None) -> bytes:
        """``alg`` instead of the key's own, whether it suits the key or not: its hash and padding, with this key."""
        alg = alg or self.alg
        digest = _HASHES.get(alg[2:5], hashes.SHA256)()
        if isinstance(self.secret, bytes):
            return hmac.digest(self.secret, data, digest.name)
        if isinstance(self.secret, rsa.RSAPrivateKey):
            pss = padding.PSS(padding.MGF1(digest), digest.digest_size)
            return self.secret.sign(data, pss if alg.startswith("PS") else padding.PKCS1v15(), digest)
        if isinstance(self.secret, ec.EllipticCurvePrivateKey):
            size = (self.secret.key_size + 7) // 8
            numbers = decode_dss_signature(self.secret.sign(data, ec.ECDSA(digest)))
            return b"".join(number.to_bytes(size) for number in numbers)
        return self.secret.sign(data)

    def __repr__(self) -> str:
        return f"<Key {self.kid} for {self.alg}>"


def _members(key: Any) -> dict[str, Any]:
    if isinstance(key, bytes):
        return {"kty": "oct", "k": b64(key)}
    if isinstance(key, rsa.RSAPrivateKey | rsa.RSAPublicKey):
        members = RSAAlgorithm.to_jwk(key, as_dict=True)
    elif isinstance(key, ec.EllipticCurvePrivateKey | ec.EllipticCurvePublicKey):
        members = ECAlgorithm.to_jwk(key, as_dict=True)
    else:
        members = OKPAlgorithm.to_jwk(key, as_dict=True)
    # What the library adds is for the key's owner to say.
    return {name: value for name, value in members.items() if name != "key_ops"}


def ec_key(kid: str = "ec", alg: str = "ES256") -> Key:
    """On the curve of ``alg``: ES256, ES384, ES512 or ES256K."""
    return Key(kid, alg, ec.generate_private_key(_CURVES[alg]()))


def ed_key(kid: str = "ed") -> Key:
    """Ed25519."""
    return Key(kid, "EdDSA", ed25519.Ed25519PrivateKey.generate())


def rsa_key(kid: str = "rsa", alg: str = "RS256", bits: int = 2048) -> Key:
    """1024 ``bits`` and more."""
    return Key(kid, alg, rsa.generate_private_key(65537, bits))


def octets(secret: bytes | None = None, kid: str = "oct", alg: str = "HS256") -> Key:
    """A symmetric key: random, or of the bytes given."""
    return Key(kid, alg, secret or secrets.token_bytes(64))


def roca_key(kid: str = "roca", alg: str = "RS256") -> Key:
    """RSA of 2048 bits as the broken generator of CVE-2017-15361 made it: both primes are k·M + (65537ᵃ mod M), with M
    the product of the first 126 primes."""
    product = math.prod(_first_primes(126))
    p, q = _roca_prime(product), _roca_prime(product)
    exponent = pow(65537, -1, math.lcm(p - 1, q - 1))
    numbers = rsa.RSAPrivateNumbers(
        p=p,
        q=q,
        d=exponent,
        dmp1=exponent % (p - 1),
        dmq1=exponent % (q - 1),
        iqmp=pow(q, -1, p),
        public_numbers=rsa.RSAPublicNumbers(65537, p * q),
    )
    return Key(kid, alg, numbers.private_key())


def _first_primes(count: int) -> list[int]:
    primes: list[int] = []
    number = 2
    while len(primes) < count:
        if all(number % prime for prime in primes):
            primes.append(number)
        number += 1
    return primes


def _roca_prime(product: int) -> int:
    """Of 1024 bits, the two highest set, so that two of them make a modulus of 2048."""
    lowest, highest = (3 << 1022) // product + 1, (1 << 1024) // product - 1
    while True:
        candidate = (lowest + secrets.randbelow(highest - lowest)) * product + pow(65537, secrets.randbits(64), product)
        # Fermat's test is enough for random numbers of this size; the library checks the key again.
        if pow(2, candidate - 1, candidate) == 1:
            return candidate


def exponent_one_signature(data: bytes, bits: int = 2048) -> bytes:
    """What verifies as RS256 of ``data`` with any RSA key of this size whose exponent is 1: the padding alone
    (RFC 8017 §9.2), made without a secret."""
    prefix = bytes.fromhex("3031300d060960864801650304020105000420")
    tail = b"\x00" + prefix + hashlib.sha256(data).digest()
    return b"\x00\x01" + b"\xff" * (bits // 8 - 2 - len(tail)) + tail


def three_primes(key: Key, data: bytes) -> tuple[str, bytes]:
    """Three times the modulus of an RSA key of 2048 bits, as a JWK has it, and what verifies there as RS256.

    That is the padding of ``data`` (RFC 8017 §9.2) to the power that undoes 65537.
    """
    assert isinstance(key.secret, rsa.RSAPrivateKey)
    numbers = key.secret.private_numbers()
    modulus = 3 * numbers.p * numbers.q
    size = (modulus.bit_length() + 7) // 8
    padded = int.from_bytes(exponent_one_signature(data, 8 * size))
    power = pow(65537, -1, math.lcm(2, numbers.p - 1, numbers.q - 1))
    return b64(modulus.to_bytes(size)), pow(padded, power, modulus).to_bytes(size)
