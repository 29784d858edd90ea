"""The questions, the figures, and the page that shows them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from lab.agents.__main__ import PAGE
from lab.agents.listings import LISTINGS
from lab.agents.measure import Asked, Judged, Measured, rank_of, tokens_of, tokens_of_tools
from lab.agents.mistakes import MISTAKES, Try
from lab.agents.questions import read_questions
from lab.agents.table import BEGIN, END, details, missed, table, with_table

QUESTIONS = read_questions()


def figures(rank: int | None = 1, *, is_right: bool = True, tokens: int = 1000, fault: str = "") -> list[Measured]:
    """Return figures in which each question came to the same."""
    tries = tuple(Judged(Try(mistake, "t", {}), is_right, "no") for mistake in MISTAKES)
    asked = [Asked(question, rank, rank is not None, tokens, tries, fault) for question in QUESTIONS]
    return [
        Measured(name, 10, 20_000, False, tuple(one for one in asked if one.question.listing == name))
        for name in LISTINGS
    ]


def test_there_are_sixty_questions_and_fourteen_of_them_are_tryton_s() -> None:
    counts = Counter(question.listing for question in QUESTIONS)
    assert counts.keys() == LISTINGS.keys()
    assert counts.total() == 60
    assert counts["tryton"] == 14


def test_good_figures_miss_no_floor() -> None:
    assert [*missed(figures())] == []
    assert [*details(figures())] == []


def test_each_floor_is_told_where_it_is_missed() -> None:
    assert [*missed(figures(rank=None))] == [
        "0 wanted tools are in the first five, at least 50 should be",
        "0 of Tryton's are, at least 11 should be",
    ]
    assert [*missed(figures(is_right=False))] == [
        "0 of 420 (0 %) calls after a wrong try are right, at least 90% should be"
    ]
    assert [*missed(figures(tokens=3001))] == ["3,001 tokens are read with search, at most 3,000 should be"]
    assert len([*missed(figures(fault="refused"))]) == 60
    few = [replace(row, asked=tuple(replace(one, tries=()) for one in row.asked)) for row in figures()]
    assert "0 wrong tries are left, at least 250 should be" in [*missed(few)]


def test_what_went_wrong_is_told_in_detail() -> None:
    lines = [*details(figures(rank=None, is_right=False))]
    assert "not found: kodi: Set the volume to 42." in lines
    assert "not mended: null: t{}: no" in lines


def test_a_rank_counts_tools_and_the_lines_of_groups() -> None:
    question = next(one for one in QUESTIONS if one.name == "core_mixer_set_volume")
    other, wanted = {"name": "core_mixer_get_volume"}, {"name": "core_mixer_set_volume"}
    assert rank_of(question, {"tools": [other, wanted]}) == 2
    assert rank_of(question, {"tools": [other], "groups": [{"name": "core.mixer", "tools": [question.name]}]}) == 2
    assert rank_of(question, {"tools": [other] * 5 + [wanted]}) is None
    assert rank_of(question, {"tools": [], "hint": "nothing"}) is None


def test_four_characters_are_a_token() -> None:
    assert tokens_of("é" * 10) == 3
    assert tokens_of_tools({"t": {"name": "t", "outputSchema": {"x" * 100: {}}}}) == tokens_of({"name": "t"})


def test_the_page_has_the_figures_of_all_listings_and_mistakes() -> None:
    text = PAGE.read_text(encoding="utf-8")
    _, begin, rest = text.partition(BEGIN)
    shown, end, _ = rest.partition(END)
    assert begin
    assert end
    heads = [line.split(" | ")[0] for line in table(figures()).splitlines() if line]
    assert [line.split(" | ")[0] for line in shown.splitlines() if line] == heads
    assert with_table(text, "x\n").count("x\n<!--") == 1
