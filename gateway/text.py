"""Text from strangers, made fit to show: nothing that hides from people what a model reads, and not too long."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_MARK: Final = "…"
# C0 and C1 controls but tab and newline; soft hyphen, fillers, zero-width, line separators, bidirectional and invisible
# operators; lone surrogates; interlinear marks; tag characters; variation selectors but the one that emoji need; and
# the other characters that Unicode has nothing shown for (Default_Ignorable_Code_Point), but for the two joiners.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)
# Persian, Indic scripts and emoji need a joiner, one at a time and between letters of their own. Others are a code
# that people do not see.
_JOINER = re.compile("(?<![^\x00-\x7f\u200c\u200d])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f\u200c\u200d])")


def printable(text: str) -> str:
    """Without control, bidirectional, tag and other invisible characters, in Unicode's composed form (NFC)."""
    if text.isascii() and text.isprintable():
        return text
    text = unicodedata.normalize("NFC", _HIDDEN.sub("", text.replace("\r\n", "\n")))
    return unicodedata.normalize("NFC", _JOINER.sub("", text))


def cap(text: str, limit: int) -> str:
    """At most ``limit`` bytes of UTF-8, with a mark where something was cut."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= limit:
        return text
    return raw[: limit - len(_MARK.encode())].decode("utf-8", "ignore") + _MARK
