"""One secret, a key for each purpose.

The file's first line signs, all its lines verify, so that a secret can be replaced while what the old one signed is
still about: put the new one on top, and drop the old one when it is of no use.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path
from typing import Final

MIN_SECRET_BYTES: Final = 16
_MAC_BYTES: Final = 16


class SecretError(Exception):
    """The secret file cannot be used; the text says why and what to do."""


def read_secrets(file: str | None) -> tuple[bytes, ...]:
    """The secrets of a file, or a random one. Raises :class:`SecretError`."""
    if file is None:
        return (secrets.token_bytes(32),)
    try:
        lines = tuple(line.strip() for line in Path(file).read_bytes().splitlines() if line.strip())
    except OSError as error:
        raise SecretError(f"server.secret_file: {file}: {error.strerror}") from None
    if not lines or min(map(len, lines)) < MIN_SECRET_BYTES:
        raise SecretError(
            f"server.secret_file: {file}: each line must have at least {MIN_SECRET_BYTES} bytes; "
            "make one with: openssl rand -hex 32"
        )
    return lines


class Signer:
    """Signs short texts for one purpose, as opaque base64url tokens."""

    def __init__(self, secrets: tuple[bytes, ...], purpose: str) -> None:
        self._keys = tuple(hmac.digest(secret, purpose.encode(), "sha256") for secret in secrets)

    def sign(self, text: str) -> str:
        raw = text.encode()
        return urlsafe_b64encode(_mac(self._keys[0], raw) + raw).rstrip(b"=").decode()

    def verify(self, token: str) -> str | None:
        """The text that was signed, or None if this is not a token of ours."""
        try:
            raw = urlsafe_b64decode(token.encode("ascii") + b"=" * (-len(token) % 4))
        except ValueError:
            return None
        mac, text = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
        if not any(hmac.compare_digest(mac, _mac(key, text)) for key in self._keys):
            return None
        # The decoder ignores stray bits and characters; a token has one spelling.
        if urlsafe_b64encode(raw).rstrip(b"=").decode() != token:
            return None
        return text.decode()


def _mac(key: bytes, text: bytes) -> bytes:
    return hashlib.blake2b(text, key=key, digest_size=_MAC_BYTES).digest()
