"""Text from strangers, made fit to show."""

from __future__ import annotations

import sys
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from gateway.text import excerpt, printable, truncate
from tests.each import each
from tests.pace import quickly
from tests.tables import each_row_and


@each_row_and({"a lone surrogate": ("a\ud800b", "ab")})
def test_what_people_cannot_see_is_taken_out(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_of_all_controls_and_formats_only_those_stay_that_people_see() -> None:
    """A tab, a newline, and the signs that Arabic, Syriac and Kaithi draw with numbers."""
    seen = "\t\n\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
    kinds = ("Cc", "Cf", "Cs", "Zl", "Zp")
    steering = [one for one in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(one) in kinds]
    assert printable("a".join(steering)).replace("a", "") == seen


@each(
    "text",
    ["Plain text.", "tab\tand\nline", "naïve", "日本語", "👩‍💻 family", "❤️‍🔥 1️⃣ #️⃣ ©️", "می‌خواهم", "שלום", "a/b & <c>"],
)
def test_ordinary_text_of_any_script_stays(text: str) -> None:
    assert printable(text) == text


def test_line_ends_become_newlines_and_letters_their_composed_form() -> None:
    assert printable("a\r\nb") == "a\nb"
    assert printable("e\u0301") == "é"


def test_a_hidden_character_does_not_keep_a_letter_from_its_composed_form() -> None:
    assert printable("e\u200b\u0301") == "é"


BELOW, ABOVE = "\u0316", "\u0301"
MARKS = {
    "of two kinds in turn": "a" + (BELOW + ABOVE) * 32_000,
    "that are letters by their own class": "a" + "\u0f73" * 42_000,
    "with what is hidden among them": "a" + (BELOW + ABOVE + "\u200b") * 25_000,
    "with joiners among them": "a" + (BELOW + ABOVE + "\u200d") * 25_000,
    "on one letter after another": ("a" + (BELOW + ABOVE) * 50) * 1_200,
}


def longest_run_of_marks(text: str) -> int:
    """In what the text decomposes to (UAX #15 §13)."""
    longest = run = 0
    for character in unicodedata.normalize("NFD", text):
        run = run + 1 if unicodedata.combining(character) else 0
        longest = max(longest, run)
    return longest


@each("text", MARKS)
def test_combining_marks_cost_no_time_and_thirty_in_a_row_stay(text: str) -> None:
    with quickly(0.3):
        shown = printable(text)
    assert longest_run_of_marks(shown) <= 30


def test_marks_up_to_the_bound_stay_as_they_are() -> None:
    text = "x" + BELOW * 30 + "y"
    assert printable(text) == text
    assert printable("x" + BELOW * 31 + "y") == text


@given(st.text(st.sampled_from("aé\u1ea4か日각\u0f73\u0344" + BELOW + ABOVE), min_size=20, max_size=80))
def test_text_of_many_marks_keeps_its_form_when_it_is_made_printable_twice(text: str) -> None:
    once = printable(text)
    assert printable(once) == once
    assert longest_run_of_marks(once) <= 30
    assert unicodedata.is_normalized("NFC", once)


def test_no_character_has_marks_where_runs_of_them_are_not_looked_for() -> None:
    for code in range(sys.maxunicode + 1):
        decomposed = unicodedata.normalize("NFD", chr(code))
        marks = sum(map(bool, map(unicodedata.combining, decomposed)))
        assert marks <= 3
        if marks:
            assert code >= 0xC0
            assert not 0x3400 <= code <= 0x9FFF
            assert not 0xAC00 <= code <= 0xD7A3


@given(st.text())
def test_making_text_printable_twice_changes_nothing(text: str) -> None:
    once = printable(text)
    assert printable(once) == once
    assert unicodedata.is_normalized("NFC", once)
    once.encode()


def test_text_within_the_cap_is_untouched_and_longer_text_is_marked() -> None:
    assert truncate("abc", 3) == "abc"
    assert truncate("abcdefgh", 6) == "abc…"


@each("character", ["é", "€", "😀"])
@each("limit", range(8, 16))
def test_a_cut_falls_between_characters_at_any_limit(character: str, limit: int) -> None:
    cut = truncate(character * 20, limit)
    assert cut.endswith("…")
    assert set(cut[:-1]) <= {character}
    assert limit - len(character.encode()) < len(cut.encode()) <= limit


def test_an_excerpt_is_cleaned_and_marked_where_something_is_left_out() -> None:
    assert excerpt("a\u200bbc", 3) == "abc"
    assert excerpt("a\u200bbcdefgh", 6) == "abc…"
    assert excerpt("\u200b" * 1000 + "abc", 6) == "…"


def test_an_excerpt_costs_what_is_shown_of_it() -> None:
    text = "ü\u200d" * 1_000_000
    with quickly():
        assert excerpt(text, 100).endswith("ü…")


@given(st.text(), st.integers(3, 50))
def test_an_excerpt_never_exceeds_its_limit(text: str, limit: int) -> None:
    assert len(excerpt(text, limit).encode()) <= limit


@given(st.text(), st.integers(3, 50))
def test_what_is_capped_never_exceeds_the_cap(text: str, limit: int) -> None:
    assert len(truncate(text, limit).encode()) <= limit
