"""What a person reads before a tool runs is what is sent, to its last leaf."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.errors import ConfirmationTooLong
from gateway.invocation.consent import MOST_CHARACTERS, MOST_LINES, consent_request
from gateway.model import Binding, Structure, Tool
from gateway.text import has_hidden_characters
from tests.each import each


def tool(**binding: Any) -> Tool:
    return Tool("pay", "pay", "Pay money\nMore", {}, Binding("pay", Structure.BY_NAME, **binding), confirm=True)


def lines_of(arguments: dict[str, Any], **binding: Any) -> list[str]:
    """The lines of the question about the arguments."""
    message = consent_request(tool(**binding), arguments, " of bank")["params"]["message"]
    question, about, *shown = message.split("\n")
    assert (question, about) == ("Run pay of bank?", 'Its description: "Pay money"')
    return list(shown)


ROWS: dict[str, tuple[Any, list[str]]] = {
    "values": (
        {"a": "1", "b": 1, "c": 1.0, "d": None, "e": True, "f": "null"},
        ['a: "1"', "b: 1", "c: 1.0", "d: null", "e: true", 'f: "null"'],
    ),
    "nested": (
        {"transfer": {"to": "bob", "parts": [1, {"x": []}]}},
        ['transfer.to: "bob"', "transfer.parts[0]: 1", "transfer.parts[1].x: []"],
    ),
    "a list": ({"params": [[], {}, 5]}, ["params[0]: []", "params[1]: {}", "params[2]: 5"]),
    "names that look like paths": (
        {"transfer.to": 1, "a[0]": 2, "": 3, "a b": 4, "x-y_Z9": 5},
        ['["transfer.to"]: 1', '["a[0]"]: 2', '[""]: 3', '["a b"]: 4', "x-y_Z9: 5"],
    ),
    "a padded first argument": (
        {"note": "Lunch. " + " " * 1490, "to": "attacker"},
        [f'note: "Lunch. {" " * 112} … 1339 characters are left out … {" " * 39}"', 'to: "attacker"'],
    ),
    "hidden characters": (
        {"to": "zo\u200be\u202e", "na\u2028me": "a\\b\n", "n\n": {"\U000e0041": 1}},
        [
            r'to: "zo\u200be\u202e"',
            r'["na\u2028me"]: "a\\b\n"',
            r'["n\n"]["\udb40\udc41"]: 1',
        ],
    ),
    "signs without ink": (
        {"to": "bob\u2800", "by": "a\ufffc\U00016fe4\U0001d159"},
        [r'to: "bob\u2800"', r'by: "a\ufffc\ud81b\udfe4\ud834\udd59"'],
    ),
    "what looks alike": (
        {"to": "e\u0301", "by": "a\u00a0b\u3000", "of": "é 漢字 नमस्ते"},
        [r'to: "e\u0301"', r'by: "a\u00a0b\u3000"', 'of: "é 漢字 नमस्ते"'],
    ),
    "a large number": ({"n": 10**30}, ["n: 1000000000000000000000000000000"]),
}


@each(("arguments", "shown"), ROWS)
def test_each_leaf_has_a_line_of_its_own_with_its_path(arguments: dict[str, Any], shown: list[str]) -> None:
    assert lines_of(arguments) == ["With these arguments:", *shown]


def test_what_is_sent_without_the_caller_is_shown_or_counted() -> None:
    assert lines_of({}) == ["Without arguments."]
    shown = lines_of(
        {"to": "bob", "sent": 3},
        sent={"sent": 1, "fee": 2},
        default_arguments={"own": "x"},
        fixed_arguments={"key": "k", "fee": 9},
        own_names={"published": "own"},
    )
    assert shown == [
        "With these arguments:",
        "sent: 3",
        'published: "x"',
        'to: "bob"',
        "and 2 that the operator has set",
    ]


@each(
    "arguments",
    {
        "many": {"many": list(range(MOST_LINES + 1))},
        "long values": {f"n{number}": "x" * 190 for number in range(MOST_LINES)},
        "a long name": {"x" * (MOST_CHARACTERS + 1): 1},
        "a deep name": {"x" * 3000: {"y" * 3000: {"z" * 3000: 1}}},
    },
)
def test_what_nobody_reads_to_its_end_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfirmationTooLong, match="50 values or 8000 characters"):
        lines_of(arguments)


def test_as_much_as_may_be_is_shown() -> None:
    assert len(lines_of({"many": list(range(MOST_LINES))})) == MOST_LINES + 1
    assert "left out" in lines_of({"text": "x" * 1_000_000})[1]


_TEXTS = st.text(st.sampled_from('ab.[]"\\\n :\u200b\u202e\u00e9e\u0301…'), max_size=6)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([1.0, 0.5]) | _TEXTS | st.just("x" * 400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=6,
)
_ARGUMENTS = st.dictionaries(_TEXTS, _VALUES, max_size=4)


@settings(max_examples=300)
@given(_ARGUMENTS, _ARGUMENTS)
def test_two_calls_whose_arguments_differ_show_different_texts(one: dict[str, Any], other: dict[str, Any]) -> None:
    texts = ["\n".join(lines_of(arguments)) for arguments in (one, other)]
    same = json.dumps(one) == json.dumps(other)
    assert (texts[0] == texts[1]) == same or "characters are left out" in texts[0]
    assert not any(has_hidden_characters(text) for text in texts)


@each(
    ("binding", "fills"),
    {
        "by name": ({"structure": Structure.BY_NAME}, {}),
        "by position": ({"structure": Structure.BY_POSITION}, {"fee": 100, "note": None}),
        "a guess": ({"structure": Structure.BY_NAME, "structure_is_known": False}, {"fee": 100, "note": None}),
    },
)
def test_what_fills_gaps_between_positions_is_shown(binding: dict[str, Any], fills: dict[str, Any]) -> None:
    order, gaps = ("fee", "note", "to", "last"), {"fee": 100, "note": None, "last": 1}
    shown = _lines_of_binding({"to": "bob"}, Binding("pay", order=order, gap_values=gaps, **binding))
    assert shown == [*(f"{name}: {json.dumps(value)}" for name, value in fills.items()), 'to: "bob"']


def test_an_argument_with_the_published_name_of_a_fixed_one_is_shown() -> None:
    bound = Binding("pay", Structure.BY_NAME, fixed_arguments={"to": "bank"}, own_names={"to": "by_way_of"})
    assert _lines_of_binding({"to": "bob"}, bound) == ['to: "bob"', "and 1 that the operator has set"]


def _lines_of_binding(arguments: dict[str, Any], binding: Binding) -> list[str]:
    request = consent_request(Tool("pay", "pay", "", {}, binding, confirm=True), arguments, "")
    return list(request["params"]["message"].split("\n")[2:])
