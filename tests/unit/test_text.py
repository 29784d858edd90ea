"""Text from strangers, made fit to show."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.text import cap, printable

HIDDEN = {
    "an escape sequence": ("\x1b[31mred", "[31mred"),
    "a bell and a NUL": ("a\x07\x00b", "ab"),
    "a C1 control": ("a\x9b31mb\x85", "a31mb"),
    "DEL": ("a\x7fb", "ab"),
    "a right-to-left override": ("safe\u202egpj.exe", "safegpj.exe"),
    "bidirectional isolates": ("\u2066a\u2067b\u2068c\u2069", "abc"),
    "marks of direction": ("a\u200e\u200f\u061cb", "ab"),
    "a zero-width space": ("ig\u200bnore", "ignore"),
    "a word joiner and a byte order mark": ("a\u2060b\ufeff", "ab"),
    "a soft hyphen": ("in\xadvisible", "invisible"),
    "tag characters": ("Add.\U000e0049\U000e0067\U000e006e\U000e007f", "Add."),
    "a lone surrogate": ("a\ud800b", "ab"),
    "interlinear marks": ("\ufff9a\ufffbb", "ab"),
    "joiners between plain letters": ("ig\u200cno\u200dre", "ignore"),
    "joiners at the edges": ("\u200da\u200c", "a"),
    "joiners in a row, as a code": ("\u0646\u200c\u200d\u200c\u200c\u0646", "\u0646\u0646"),
    "a grapheme joiner and a Mongolian selector": ("a\u034fb\u180ec\u180b", "abc"),
    "deprecated format characters": ("a\u206ab\u206f", "ab"),
    "marks of music and shorthand": ("a\U0001d173b\U0001bca0", "ab"),
    "what plane 14 still has in store": ("a\U000e0080b\U000e0fff", "ab"),
    "a carriage return that hides a line": ("rm -rf\rls", "rm -rfls"),
}


@pytest.mark.parametrize(("text", "shown"), HIDDEN.values(), ids=HIDDEN.keys())
def test_what_people_cannot_see_is_taken_out(text: str, shown: str) -> None:
    assert printable(text) == shown


@pytest.mark.parametrize(
    "text", ["Plain text.", "tab\tand\nline", "naïve", "日本語", "👩‍💻 family", "می‌خواهم", "שלום", "a/b & <c>"]
)
def test_ordinary_text_of_any_script_stays(text: str) -> None:
    assert printable(text) == text


def test_line_ends_become_newlines_and_letters_their_composed_form() -> None:
    assert printable("a\r\nb") == "a\nb"
    assert printable("e\u0301") == "é"


def test_a_hidden_character_does_not_keep_a_letter_from_its_composed_form() -> None:
    assert printable("e\u200b\u0301") == "é"


@given(st.text())
def test_making_text_printable_twice_changes_nothing(text: str) -> None:
    once = printable(text)
    assert printable(once) == once
    assert unicodedata.is_normalized("NFC", once)
    once.encode()


def test_text_within_the_cap_is_untouched_and_longer_text_is_marked() -> None:
    assert cap("abc", 3) == "abc"
    assert cap("abcdefgh", 6) == "abc…"


@pytest.mark.parametrize("character", ["é", "€", "😀"])
@pytest.mark.parametrize("limit", range(8, 16))
def test_a_cut_falls_between_characters_at_any_limit(character: str, limit: int) -> None:
    cut = cap(character * 20, limit)
    assert cut.endswith("…")
    assert set(cut[:-1]) <= {character}
    assert limit - len(character.encode()) < len(cut.encode()) <= limit


@given(st.text(), st.integers(3, 50))
def test_what_is_capped_never_exceeds_the_cap(text: str, limit: int) -> None:
    assert len(cap(text, limit).encode()) <= limit
