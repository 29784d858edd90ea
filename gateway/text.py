"""Make untrusted text safe to show: bounded, and without characters that a model reads and people cannot see. Suggest
the word that a misspelled one probably means."""

import difflib
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final
from urllib.parse import unquote_plus, urlsplit, urlunsplit

_MARK: Final = "…"
_SECRET_NAME: Final = re.compile(r"key|token|secret|auth|pass|pwd|credential|sig", re.IGNORECASE)
_TOKEN: Final = re.compile(r"[\w~-]{20,}+")
_DIGITS: Final = 3
API_KEY: Final = re.compile(r"jmg_[0-9A-Za-z_]{40,}")
"""An API key, wherever a client put it."""
_KEY_STARTS: Final = "jmg_"
# C0 and C1 controls except tab and newline; soft hyphen, fillers, zero-width, line separators, bidirectional and
# invisible operators; lone surrogates; two that are no characters; interlinear marks; the layout of hieroglyphs; tag
# characters; variation selectors except the one that emoji need; and all others that Unicode does not display
# (Default_Ignorable_Code_Point), except for the two joiners.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\ud800-\udfff\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# The selector that emoji need stands after an emoji, or in a keycap. Elsewhere it may encode a hidden message.
_SELECTOR = re.compile("(?<![#*0-9])(?<![^\x00-\x7f\u200c\u200d\ufe0f])\ufe0f|(?<=[#*0-9])\ufe0f(?!\u20e3)")
# Persian, Indic scripts and emoji need a joiner, one at a time and between their own letters. Elsewhere joiners may
# encode a hidden message.
_JOINER = re.compile("(?<![^\x00-\x7f\u200c\u200d])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f\u200c\u200d])")


_WITHOUT_INK: Final = frozenset("\u2800\ufffc\U0001107f\U00016fe4\U0001d159")
"""Characters that are printable by Unicode, and look like a space or like nothing."""
_MOST_ON_A_LETTER: Final = 4
"""Marks on one letter that are shown where texts stand beside others. More would draw over these."""


# Normalizing a run of combining marks takes time quadratic in its length. UAX #15 §13, Stream-Safe Text, allows 30 in a
# row. Characters have at most three marks when decomposed, so a run of 10 characters or fewer cannot have more.
_MAX_MARKS: Final = 30
_RUN = re.compile("[^\x00-\xbf\u3400-\u9fff\uac00-\ud7a3]{11,}+")
_SLACK: Final = 4
"""Characters of the input that are read for each byte of an excerpt, since hidden ones are removed."""


def mask_keys(text: str) -> str:
    """Return a text without the API keys in it."""
    return API_KEY.sub("jmg_***", text) if _KEY_STARTS in text else text


def printable(text: str) -> str:
    """Return a text without control, bidirectional, tag and other invisible characters, in Unicode's composed form
    (NFC), with at most 30 combining marks in a row. Takes time linear in the text."""
    if text.isascii() and text.isprintable():
        return text
    text = _compose(_HIDDEN.sub("", text.replace("\r\n", "\n")))
    without_codes = _JOINER.sub("", _SELECTOR.sub("", text))
    return text if without_codes == text else _compose(without_codes)


def has_hidden_characters(text: str) -> bool:
    """Return whether a text has characters that people cannot see."""
    if text.isascii() and text.isprintable():
        return False
    text = text.replace("\r\n", "\n")
    return any(hidden.search(text) is not None for hidden in (_HIDDEN, _JOINER, _SELECTOR))


def escape_hidden(text: str) -> str:
    """Return JSON in which each character that people cannot see, that draws over others, or that looks like another
    one is an escape: of the ways in which Unicode writes a letter, only its normal form (NFC) stays. Takes 1 µs for
    each character."""
    if text.isascii() and text.isprintable():
        return text
    written, letter = [], ""  # the last letter with its marks, "" after what is none
    for character in text:
        together = letter + character
        is_mark = unicodedata.category(character)[0] == "M"
        is_crowded = is_mark and not 0 < len(letter) <= _MOST_ON_A_LETTER
        if _is_seen(character) and not is_crowded and unicodedata.is_normalized("NFC", together):
            letter = together if is_mark else character if character.isalnum() else ""
            written.append(character)
        else:
            letter = ""
            written.append(json.dumps(character)[1:-1] if character != "\x7f" else r"\u007f")
    return "".join(written)


@lru_cache(4096)
def _is_seen(character: str) -> bool:
    return character.isprintable() and character not in _WITHOUT_INK and not has_hidden_characters(character)


def quote(text: str) -> str:
    """Return a stranger's text as one line between quotes, so that it cannot pass for a text of ours beside it."""
    return json.dumps(" ".join(text.split()), ensure_ascii=False)


def excerpt(text: str, limit: int) -> str:
    """Return the printable part of a text, at most ``limit`` bytes of UTF-8, with "…" where it was cut."""
    most = _SLACK * limit
    return truncate(printable(text) if len(text) <= most else printable(text[:most]) + _MARK, limit)


def _compose(text: str) -> str:
    return unicodedata.normalize("NFC", _RUN.sub(lambda run: _with_few_marks(run[0]), text))


def _with_few_marks(run: str) -> str:
    kept, marks = [], 0
    for character in run:
        starts, trailing = _marks(character)
        marks = trailing if starts else marks + trailing
        if starts or marks <= _MAX_MARKS:
            kept.append(character)
    return "".join(kept)


@lru_cache(4096)
def _marks(character: str) -> tuple[bool, int]:
    """Return whether a character begins with a letter or the like, and how many marks it has when decomposed."""
    classes = [unicodedata.combining(part) for part in unicodedata.normalize("NFD", character)]
    return not classes[0], sum(map(bool, classes))


def shorten(text: str, room: int) -> str:
    """Return at most ``room`` characters of a text, with "…" where it was cut."""
    return text if len(text) <= room else text[: room - 1] + _MARK


def secrets_in(url: str) -> tuple[str, ...]:
    """Return the parts of a URL that may be a token: values of its query by their names or looks, and segments of its
    path by their looks, as in the URLs of hosted Ethereum nodes. Each stands as in the URL and decoded."""
    parts = urlsplit(url)
    raw = filter(_is_token, parts.path.split("/"))
    values = (value for name, _, value in _pairs(parts.query) if _is_secret(name, value))
    return tuple(dict.fromkeys(form for part in (*raw, *values) for form in (unquote_plus(part), part) if form))


def url_beside(url: str, path: str) -> str:
    """Return a URL with ``path``, which begins with a slash, in place of its last segment, and without its query."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rpartition("/")[0] + path, "", ""))


def masked_url(url: str) -> str:
    """Return a URL with "…" in place of each part that may be a token."""
    parts = urlsplit(url)
    address, mark, query = url.partition("?")
    path = "/".join(_MARK if _is_token(segment) else segment for segment in parts.path.split("/"))
    shown = (name + between + (_MARK if _is_secret(name, value) else value) for name, between, value in _pairs(query))
    return address.removesuffix(parts.path) + path + mark + "&".join(shown)


def _pairs(query: str) -> Iterator[tuple[str, str, str]]:
    """Yield the name, the equals sign and the value of each member of a query, as they stand there."""
    return (pair.partition("=") for pair in query.split("&"))


def _is_secret(name: str, value: str) -> bool:
    return value != "" and (_SECRET_NAME.search(unquote_plus(name)) is not None or _is_token(value))


def _is_token(text: str) -> bool:
    """Return whether a part of a text between punctuation looks random: at least 20 characters, letters and at least
    three digits. A JWT has dots, and a bot's token a colon."""
    return any(
        sum(map(str.isdigit, part)) >= _DIGITS and not part.isdigit() for part in _TOKEN.findall(unquote_plus(text))
    )


def truncate(text: str, limit: int) -> str:
    """Return at most ``limit`` bytes of a text in UTF-8, with "…" where it was cut."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= limit:
        return text
    return raw[: limit - len(_MARK.encode())].decode("utf-8", "ignore") + _MARK


def did_you_mean(word: Any, known: Iterable[str]) -> str:
    """Return what to add to a message about an unknown word: the known one that it probably means, "" without one."""
    near = difflib.get_close_matches(word, known, n=1) if isinstance(word, str) else []
    return f"; did you mean {near[0]}?" if near else ""
