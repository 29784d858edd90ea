"""Say why a token is refused: for the log only. The caller gets one fixed sentence, so that it cannot probe."""

from __future__ import annotations


class InvalidToken(Exception):
    """Raised for a token that is not accepted. ``reason`` is for the log; it never quotes the token's values."""

    def __init__(self, reason: str, *, expired: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.expired = expired


class InvalidProof(Exception):
    """Raised for a DPoP proof that does not prove possession (RFC 9449 §4.3)."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Undecidable(Exception):
    """Raised where a token cannot be verified now: no keys, or no answer of the issuer. ``retry_after`` is seconds."""

    def __init__(self, reason: str, retry_after: int = 5) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after = retry_after
