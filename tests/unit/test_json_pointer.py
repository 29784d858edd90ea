"""JSON pointers as RFC 6901 has them."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.jsonrpc import escape_pointer, parts_of, pointer_of, resolve
from tests.each import each

# RFC 6901 §5 and §6: the document, and where each pointer leads as a URI fragment.
DOCUMENT: dict[str, Any] = {
    "foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5, 'k"l': 6, " ": 7, "m~n": 8,
}  # fmt: skip


@each(
    ("reference", "target"),
    [
        ("#", DOCUMENT), ("#/foo", ["bar", "baz"]), ("#/foo/0", "bar"), ("#/", 0), ("#/a~1b", 1), ("#/c%25d", 2),
        ("#/e%5Ef", 3), ("#/g%7Ch", 4), ("#/i%5Cj", 5), ("#/k%22l", 6), ("#/%20", 7), ("#/m~0n", 8),
        ("#%2Ffoo", ["bar", "baz"]),
    ],
)  # fmt: skip
def test_a_pointer_leads_where_the_rfc_says(reference: str, target: Any) -> None:
    assert resolve(DOCUMENT, reference) == target


@each(
    "reference",
    [
        "#/foo/2", "#/foo/x", "#/foo/-", "#/foo/-1", "#/foo/01", "#/foo/1 ", "#/foo/²", "#/foo/\u0661", "#/foo/0/x",
        "#/foo/" + "9" * 5000, "#/absent/x", "#anchor", "http://x/#", "other.json#/foo", "%23/foo", "/foo", "",
    ],
)  # fmt: skip
def test_a_pointer_leads_within_the_document_or_nowhere(reference: str) -> None:
    assert resolve(DOCUMENT, reference) is None


@given(st.lists(st.text()))
def test_what_is_written_is_read_back(parts: list[str]) -> None:
    pointer = pointer_of(parts)
    assert parts_of(pointer) == parts
    assert pointer == "".join(f"/{escape_pointer(part)}" for part in parts)


def test_indexes_are_parts_too() -> None:
    assert pointer_of(["a/b", 3, "~"]) == "/a~1b/3/~0"
    assert pointer_of([]) == ""
