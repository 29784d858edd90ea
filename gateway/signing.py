"""Sign short texts, and seal what a store passes on: a key for each purpose and protected resource is derived from one
secret.

The first line of the secret file signs and seals, and all its lines verify and open. So a secret can be replaced while
texts that the old one signed are still in use: put the new secret on top, and remove the old one once those texts have
expired.
"""

import hashlib
import hmac
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

MIN_SECRET_BYTES: Final = 16
_MAKE: Final = "make one with: openssl rand -hex 32"
SKEW: Final = 60.0
"""Seconds by which clocks may differ. A record that a text was used must be kept that much longer than the text."""
_MAC_BYTES: Final = 16
_TIME_BYTES: Final = 8
_NONCE_BYTES: Final = 12
SEAL_BYTES: Final = _NONCE_BYTES + 16
"""Bytes by which sealing lengthens a content."""


class SecretError(Exception):
    """Raised where the secret file cannot be used; the message says why and what to do."""


def read_secrets(file: str | None) -> tuple[bytes, ...]:
    """Return the secrets of a file, or a random one without a file. Raises :class:`SecretError`."""
    if file is None:
        return (secrets.token_bytes(32),)
    try:
        lines = tuple(line.strip() for line in Path(file).read_bytes().splitlines() if line.strip())
    except OSError as error:
        raise SecretError(f"server.secret_file: {file}: {error.strerror}; {_MAKE}") from None
    if not lines or min(map(len, lines)) < MIN_SECRET_BYTES:
        raise SecretError(f"server.secret_file: {file}: each line must have at least {MIN_SECRET_BYTES} bytes; {_MAKE}")
    return lines


@dataclass(frozen=True, slots=True)
class SigningKeys:
    """Hold the secrets of the gateway for one protected resource: a text signed for one is not valid at another."""

    secrets: tuple[bytes, ...] = field(repr=False)
    resource: str

    def derive(self, purpose: str) -> tuple[bytes, ...]:
        """Return a key for each secret. ``purpose`` is a constant of the caller, without line breaks."""
        name = f"{purpose}\n{self.resource}".encode()
        return tuple(hmac.digest(secret, name, "sha256") for secret in self.secrets)


class Signer:
    """Sign short texts for one purpose, as opaque base64url tokens that are valid for ``ttl`` seconds. ``clock`` is
    wall-clock seconds, since replicas share it."""

    def __init__(self, keys: SigningKeys, purpose: str, ttl: float, clock: Callable[[], float] = time.time) -> None:
        self._keys = keys.derive(purpose)
        self._ttl = ttl
        self._clock = clock

    def sign(self, text: str, *owner: str) -> str:
        """Return a token that is valid with the same ``owner`` alone. The token does not contain the owner."""
        raw = int(self._clock()).to_bytes(_TIME_BYTES, "big") + text.encode()
        return _encode_token(_mac(self._keys[0], owner, raw) + raw)

    def verify(self, token: str, *owner: str) -> str | None:
        """Return the text that was signed; None if the token is not ours, another owner's, expired or from the
        future."""
        try:
            raw = urlsafe_b64decode(token.encode("ascii") + b"=" * (-len(token) % 4))
        except ValueError:
            return None
        mac, raw_text = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
        if not any(hmac.compare_digest(mac, _mac(key, owner, raw_text)) for key in self._keys):
            return None
        # The decoder ignores stray bits and characters; a token has one spelling.
        if _encode_token(raw) != token:
            return None
        age = self._clock() - int.from_bytes(raw_text[:_TIME_BYTES], "big")
        # A token made while a clock was wrong would be valid until that time, plus its lifetime.
        return raw_text[_TIME_BYTES:].decode() if -SKEW <= age < self._ttl else None


class Seal:
    """Encrypt and authenticate bytes that others may read and write where they are kept (AES-256-GCM, NIST SP 800-38D).
    Nonces are random: one key is good for 2**32 contents."""

    def __init__(self, keys: SigningKeys, purpose: str) -> None:
        self._ciphers = tuple(AESGCM(key) for key in keys.derive(purpose))

    def close(self, content: bytes, place: str) -> bytes:
        """Return the sealed content, which opens at this ``place`` alone."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._ciphers[0].encrypt(nonce, content, place.encode("utf-8", "surrogatepass"))

    def open(self, sealed: bytes, place: str) -> bytes | None:
        """Return the content; None if it was not sealed with one of these keys, or for another place."""
        if len(sealed) < SEAL_BYTES:
            return None
        nonce, rest = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
        for cipher in self._ciphers:
            with suppress(InvalidTag):
                return cipher.decrypt(nonce, rest, place.encode("utf-8", "surrogatepass"))
        return None


def _encode_token(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def _mac(key: bytes, owner: tuple[str, ...], raw: bytes) -> bytes:
    # Each part has its length in front: else the end of an owner could be moved to the beginning of the text.
    parts = [part.encode() for part in owner]
    head = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return hashlib.blake2b(len(head).to_bytes(4, "big") + head + raw, key=key, digest_size=_MAC_BYTES).digest()
