"""Mend JSON that a service wrote nearly right, where only one thing can be meant.

| what came | what it becomes | its word |
|---|---|---|
| a byte order mark before it | nothing | ``bom`` |
| NUL bytes behind it | nothing | ``nul`` |
| other text before one object, which has the id of the call | nothing | ``text`` |
| bytes in a string that are not UTF-8 | U+FFFD | ``utf-8`` |
| half of a surrogate pair, as an escape | U+FFFD | ``surrogate`` |
| a control character in a string, as a line break | its escape | ``control`` |
| ``NaN``, ``Infinity``, a number that cannot be read | ``null`` | ``number`` |

Only what could not be read comes here, once. Whoever gets the value is told what was mended.
"""

import re
from collections.abc import Generator, Mapping
from contextlib import suppress
from math import isfinite
from typing import Final

from msgspec import Struct

from gateway import jsonrpc
from gateway.jsonrpc.response import parse_head

_SAID: Final = {
    "bom": "a byte order mark",
    "nul": "a NUL byte",
    "text": "text before the message",
    "utf-8": "not UTF-8",
    "surrogate": "half of a surrogate pair",
    "control": "a control character in a string",
    "number": "a number that JSON cannot have",
}
_BOM: Final = b"\xef\xbb\xbf"
_SPACE: Final = b" \t\r\n"
_OPENINGS: Final = (b"{", b"[", b'"')
_WINDOW: Final = 8 * 1024
"""Bytes that are looked at in one step, unless a string is longer."""
_MOST_MENDED: Final = 100_000
"""Strings and numbers that are mended: some seconds of work in all."""
_STRING: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_WHOLE: Final = re.compile(rb'(?:[^"]++|%b)*+' % _STRING, re.DOTALL)
"""Match up to an end outside of any string."""
_REST: Final = re.compile(rb'(?:[^"\\]++|\\[^u]|\\u[0-9a-fA-F]{4})*+', re.DOTALL)
"""Match the rest of a string, without its end."""
_CHARACTER: Final = re.compile(rb"[\x80-\xbf]{0,3}+(?:\\u[dD][c-fC-F][0-9a-fA-F]{2})?+")
"""The rest of a character that was cut."""
_WORD: Final = rb"0-9A-Za-z.+-"
_WORD_BYTES: Final = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.+-"
_SUSPECT: Final = (
    rb"(?<![%b])-?(?:(?:[nN][aA][nN]|[iI][nN][fF](?:inity)?+)|[0-9]++(?:\.[0-9]++)?+[eE]\+?[0-9]{3,}+"
    rb"|[0-9]{200,}+(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+)(?![%b])" % (_WORD, _WORD)
)
_NUMBERS: Final = re.compile(_SUSPECT)
_TOKENS: Final = re.compile(rb"%b|%b" % (_STRING, _SUSPECT), re.DOTALL)
_CONTROL: Final = re.compile(rb"[\x00-\x1f]")
_ESCAPED_CONTROL: Final = re.compile(rb"(?:[^\\]++|\\[^\x00-\x1f])*+\\[\x00-\x1f]", re.DOTALL)
"""Match a string up to a control character behind a backslash: with its escape there, it would be another text."""
_HALF: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_PAIR: Final = rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_HALVES: Final = re.compile(rb"(\\[^u]|%b)|\\u[dD][89a-fA-F][0-9a-fA-F]{2}" % _PAIR, re.DOTALL)
"""In the group what is sound, to be skipped."""
_END_OF_NAME: Final = re.compile(rb'"?[ \t\r\n]*+:')
"""Match what stands behind the name of a member."""
_MOST_DIGITS: Final = 4300
"""Digits of an integer that the engine reads."""
_INTEGER: Final = re.compile(rb"-?[0-9]++")
_REPLACEMENT: Final = "\ufffd".encode()


_REMEDY: Final = "correct the service"
_REMEDIES: Final = {
    "text": "have the service write nothing before the message: for PHP, set display_errors = Off",
    "bom": "save the files of the service without it",
}


class Mended(Struct, frozen=True):
    """Hold JSON that was mended: ``places`` has the first byte of each word, in the bytes that came. As a text it says
    what was wrong."""

    body: bytes
    places: Mapping[str, int]

    def __str__(self) -> str:
        return ", ".join(f"{_SAID[word]} (byte {place})" for word, place in self.places.items())

    @property
    def remedy(self) -> str:
        """Return what the owner of the service can do."""
        return "; ".join(dict.fromkeys(_REMEDIES.get(word, _REMEDY) for word in self.places))


def mend_in_steps(raw: bytes, id: str | int | None, most: int) -> Generator[None, None, Mended | None]:
    """Return JSON mended, with at most ``most`` bytes; None where there is nothing that can be. Yield about every
    8 KiB. ``id`` is that of the call, None where no text may stand before it."""
    places: dict[str, int] = {}
    end = len(raw.rstrip(_SPACE + b"\0"))
    if (nul := raw.find(b"\0", end)) >= 0:
        places["nul"] = nul
    begin = 0
    if raw.startswith(_BOM):
        begin, places["bom"] = len(_BOM), 0
    opening = raw.find(b"{", begin, end)
    if id is not None and opening >= 0 and not raw[begin:opening].lstrip(_SPACE).startswith(_OPENINGS):
        if raw[begin:opening].strip(_SPACE):
            places["text"] = begin
        begin = opening
    whole = bytearray()
    mender = _Mender(places)
    for part in mender.parts(raw, begin, end):
        whole += part
        if len(whole) > most or mender.count > _MOST_MENDED or mender.loses_members:
            return None
        yield
    if not places:
        return None
    body = bytes(whole)
    if "text" in places:
        with suppress(ValueError):
            if str(parse_head(body).id) == str(id):
                return Mended(body, places)
        return None
    return Mended(body, places)


class _Mender:
    """Mend parts of one text, and note in ``places`` the first byte of each word."""

    def __init__(self, places: dict[str, int]) -> None:
        self._places = places
        self._raw = b""
        self._begin = 0
        self._names: dict[bytes, bytes] = {}
        """Names of members as they came, by what they became."""
        self.count = 0
        self.loses_members = False
        """Set once two names became one: of two such members of an object one would be lost."""

    def parts(self, raw: bytes, begin: int, end: int) -> Generator[bytes, None, None]:
        """Yield the parts of a text. What is broken in another way stays as it is."""
        self._raw = raw
        in_string = False
        while begin < end:
            stop = min(begin + _WINDOW, end)
            if in_string:
                cut = _REST.match(raw, begin, stop).end()  # type: ignore[union-attr]  # it matches nothing, too
                cut = _CHARACTER.match(raw, cut, end).end()  # type: ignore[union-attr]
                yield self._string(raw[begin:cut], begin)
            else:
                cut = _WHOLE.match(raw, begin, stop).end()  # type: ignore[union-attr]
                if cut < end:
                    cut = begin + len(raw[begin:cut].rstrip(_WORD_BYTES))
                yield self._mend(raw[begin:cut], begin)
            if raw.startswith(b'"', cut) and (in_string or cut == begin):
                yield b'"'
                cut, in_string = cut + 1, not in_string
            if cut == begin:  # a word without end, or an escape that is none
                yield raw[begin:end]
                return
            begin = cut

    def _mend(self, part: bytes, begin: int) -> bytes:
        """Return a part that begins at this byte, and cuts no string, mended where it needs that."""
        self._begin = begin
        try:
            part.decode()
        except UnicodeDecodeError:
            pass
        else:
            if not (_CONTROL.search(part) or _HALF.search(part) or _NUMBERS.search(part)):
                return part
        return _TOKENS.sub(self._token, part)

    def _note(self, word: str, at: int) -> None:
        self._places.setdefault(word, at)
        self.count += 1

    def _token(self, found: re.Match[bytes]) -> bytes:
        text, at = found[0], self._begin + found.start()
        if text[:1] == b'"':
            return self._string(text, at)
        if _is_readable(text):
            return text
        self._note("number", at)
        return b"null"

    def _string(self, text: bytes, at: int) -> bytes:
        mended = text
        try:
            text.decode()
        except UnicodeDecodeError as error:
            self._note("utf-8", at + error.start)
            mended = text.decode("utf-8", "replace").encode()
        if (control := _CONTROL.search(text)) is not None and not _ESCAPED_CONTROL.match(text):
            self._note("control", at + control.start())
            for code in (code for code in {*text} if code < 0x20):
                mended = mended.replace(bytes((code,)), b"\\u%04x" % code)
        if _HALF.search(text) and (half := next((one for one in _HALVES.finditer(text) if one[1] is None), None)):
            self._note("surrogate", at + half.start())
            mended = _HALVES.sub(lambda one: one[1] or _REPLACEMENT, mended)
        if mended is not text and _END_OF_NAME.match(self._raw, at + len(text)):
            self.loses_members |= self._names.setdefault(mended, text) != text
        return mended


def _is_readable(word: bytes) -> bool:
    """Return whether the engine can read a number, which may be no number at all."""
    if _INTEGER.fullmatch(word):
        return len(word.lstrip(b"-")) <= _MOST_DIGITS
    return isfinite(float(word))


def json_fault(raw: bytes) -> str:
    """Return what is wrong with JSON that cannot be decoded, and where."""
    try:
        raw.decode()
        jsonrpc.decode(raw)
    except UnicodeDecodeError as error:
        return f"not UTF-8 (byte {error.start})"
    except ValueError as error:
        what = str(error).removeprefix("JSON is malformed: ")
        return f"it ends too early (byte {len(raw)})" if "truncated" in what else what
    return "the fault could not be located"
