"""docs/security.md names every row and its tests, and they exist."""

from __future__ import annotations

from tests.authorization.security_table import PAGE, ROWS, rows, sentences, written
from tests.each import each

WRITE = "run `python -m tests.authorization.security_table`"


def test_the_table_has_every_row_once_and_in_order() -> None:
    assert [row.id for row in rows(PAGE.read_text(encoding="utf-8"))] == ROWS


@each("id", ROWS)
def test_a_row_has_a_test(id: str) -> None:
    assert sentences().get(id), f"no test_{id}_… in tests/authorization"


@each("row", rows(PAGE.read_text(encoding="utf-8")))
def test_the_table_names_the_tests_that_exist_and_all_of_them(row: tuple[str, list[str]]) -> None:
    id, named = row
    assert named == sentences().get(id, []), WRITE


def test_no_test_has_the_id_of_a_row_that_is_not_there() -> None:
    assert set(sentences()) <= set(ROWS)


def test_a_sentence_after_an_id_is_in_lower_case() -> None:
    assert [said for named in sentences().values() for said in named if said != said.lower()] == []


def test_writing_the_table_changes_nothing_else() -> None:
    text = PAGE.read_text(encoding="utf-8")
    emptied = text.replace("; ".join(sentences()["J14"]), "")
    assert emptied != text
    assert written(emptied) == text
