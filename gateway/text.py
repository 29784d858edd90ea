"""Text from strangers, made fit to show: nothing that hides from people what a model reads, and not too long."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_MARK: Final = "…"
# C0 and C1 controls but tab and newline; soft hyphen, fillers, zero-width, line separators, bidirectional and invisible
# operators; lone surrogates; interlinear marks; tag characters; variation selectors but the one that emoji need.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\u3164\ufe00-\ufe0e"
    "\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f\U000e0100-\U000e01ef]"
)


def printable(text: str) -> str:
    """Without control, bidirectional and tag characters, in Unicode's composed form (NFC)."""
    return unicodedata.normalize("NFC", _HIDDEN.sub("", text.replace("\r\n", "\n")))


def cap(text: str, limit: int) -> str:
    """At most ``limit`` bytes of UTF-8, with a mark where something was cut."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= limit:
        return text
    return raw[: limit - len(_MARK.encode())].decode("utf-8", "ignore") + _MARK
