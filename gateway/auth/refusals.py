"""Why a token is refused: for the log, never for the caller, who gets one fixed sentence (RFC 8725, no oracle)."""

from __future__ import annotations


class InvalidToken(Exception):
    """The token does not count. ``reason`` is for the log and the operator; it never quotes the token's values."""

    def __init__(self, reason: str, *, expired: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.expired = expired


class InvalidProof(Exception):
    """A DPoP proof that does not prove possession (RFC 9449 §4.3)."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Undecidable(Exception):
    """Whether the token counts cannot be told now: no keys, or no answer of the issuer. ``retry_after`` is seconds."""

    def __init__(self, reason: str, retry_after: int = 5) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after = retry_after
