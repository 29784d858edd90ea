"""Tokens and proofs as no library would make them: any header, any claims, any signature, down to the bytes.

Header and claims are mappings, written as compact JSON, or bytes, taken as they are. Each function says which attack it
is; what they do not have is made with :func:`compact` and :func:`changed`.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
import uuid
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tests.authorization.keys import Key, b64, octets

Part: TypeAlias = Mapping[str, Any] | bytes
OMIT: Final = object()
"""As a value: leave this member out."""


def encoded(value: Any) -> bytes:
    """Compact JSON. NaN and the infinities are written as JavaScript does, lone surrogates as UTF-8 must not."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(errors="surrogatepass")


def over(usual: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The usual members with some changed, added, or left out (:data:`OMIT`)."""
    return {name: value for name, value in {**usual, **changes}.items() if value is not OMIT}


def members(*pairs: tuple[str, Any]) -> bytes:
    """A JSON object with these members in this order; a name may be there twice."""
    return b"{" + b",".join(encoded(name) + b":" + encoded(value) for name, value in pairs) + b"}"


def twice(part: Mapping[str, Any], name: str, first: Any) -> bytes:
    """``name`` is there twice: first with the value ``first``, then with its own."""
    return members((name, first), *part.items())


def compact(
    header: Part, claims: Part, key: Key | None = None, *, alg: str | None = None, signature: bytes | None = None
) -> str:
    """A JWS in compact form (RFC 7515 §7.1), signed by ``key`` with ``alg`` (else the key's own, whatever the header
    says), or with ``signature`` as it is, or with an empty one."""
    parts = [b64(part if isinstance(part, bytes) else encoded(part)) for part in (header, claims)]
    signed = ".".join(parts).encode()
    if signature is None:
        signature = b"" if key is None else key.sign(signed, alg)
    return ".".join([*parts, b64(signature)])


def changed(token: str, segment: int, change: Callable[[str], str]) -> str:
    """The token with one segment (0 header, 1 claims, 2 signature) rewritten."""
    segments = token.split(".")
    segments[segment] = change(segments[segment])
    return ".".join(segments)


def unsecured(claims: Part, alg: Any = "none") -> str:
    """No signature at all (RFC 8725 §2.1)."""
    return compact({"alg": alg, "typ": "at+jwt"}, claims)


def confused(claims: Part, key: Key) -> str:
    """HMAC with the issuer's public key (PEM) as secret: for whoever takes a key for any algorithm (RFC 8725 §2.1)."""
    return compact({"alg": "HS256", "typ": "at+jwt", "kid": key.kid}, claims, octets(key.public_pem))


def psychic(claims: Part, key: Key, number: int = 0) -> str:
    """ES256 whose r and s are both ``number``: 0 verified everything with some libraries (CVE-2022-21449)."""
    header = {"alg": "ES256", "typ": "at+jwt", "kid": key.kid}
    return compact(header, claims, signature=number.to_bytes(32) * 2)


def encrypted(claims: Part, key: Key) -> str:
    """A true JWE (RFC 7516) of five parts, for the RSA key's owner."""
    assert isinstance(key.secret, rsa.RSAPrivateKey), "RSA-OAEP wants an RSA key"
    header = b64(encoded({"alg": "RSA-OAEP", "enc": "A256GCM", "kid": key.kid, "typ": "at+jwt"}))
    content_key, nonce = secrets.token_bytes(32), secrets.token_bytes(12)
    oaep = padding.OAEP(padding.MGF1(hashes.SHA1()), hashes.SHA1(), None)
    plain = claims if isinstance(claims, bytes) else encoded(claims)
    sealed = AESGCM(content_key).encrypt(nonce, plain, header.encode())
    wrapped = key.secret.public_key().encrypt(content_key, oaep)
    return ".".join([header, *map(b64, (wrapped, nonce, sealed[:-16], sealed[-16:]))])


def dpop_proof(
    key: Key,
    method: str,
    url: str,
    token: str | None = None,
    nonce: str | None = None,
    *,
    header: Mapping[str, Any] | None = None,
    signed_by: Key | None = None,
    **overrides: Any,
) -> str:
    """A proof (RFC 9449 §4.2) for one request; ``token`` is given at resource servers. ``header`` and ``overrides`` (of
    claims) change or, as :data:`OMIT`, leave out members."""
    jwk = {name: value for name, value in key.jwk.items() if name not in ("kid", "alg", "use")}
    claims: dict[str, Any] = {"jti": uuid.uuid4().hex, "htm": method, "htu": url, "iat": int(time.time())}
    if token is not None:
        claims["ath"] = b64(hashlib.sha256(token.encode()).digest())
    if nonce is not None:
        claims["nonce"] = nonce
    usual = {"typ": "dpop+jwt", "alg": key.alg, "jwk": jwk}
    return compact(over(usual, header or {}), over(claims, overrides), signed_by or key)


def header_of(token: str) -> dict[str, Any]:
    """Unverified."""
    return _part(token, 0)


def claims_of(token: str) -> dict[str, Any]:
    """Unverified."""
    return _part(token, 1)


def _part(token: str, segment: int) -> dict[str, Any]:
    text = token.split(".")[segment]
    part: dict[str, Any] = json.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    return part
