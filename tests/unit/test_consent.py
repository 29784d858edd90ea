"""What a person reads before a tool runs is what is sent, to its last leaf."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.backend.params import build_params
from gateway.errors import ConfirmationTooLong
from gateway.invocation.consent import MOST_CHARACTERS, MOST_LINES, consent_request
from gateway.model import Binding, Structure, Tool
from tests.each import each
from tests.pace import quickly


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
        [f'note: "Lunch. {" " * 113}" … 1337 characters are left out … "{" " * 40}"', 'to: "attacker"'],
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
    "letters that have two forms": (
        {
            "a": "\u212b\u2126",
            "b": "\u1100\u1161",
            "c": "\u0995\u09c7\u09be",
            "d": "x\u0316\u0316\u0316\u0316\u0316",
            "e": "\u2800\x7f",
        },
        [
            r'a: "\u212b\u2126"',
            'b: "\u1100\\u1161"',
            'c: "\u0995\u09c7\\u09be"',
            'd: "x\u0316\u0316\u0316\u0316\\u0316"',
            r'e: "\u2800\u007f"',
        ],
    ),
    "emoji": ({"a": "😀 ❤\ufe0f 👩\u200d💻"}, [r'a: "😀 ❤\ufe0f 👩\u200d💻"']),
    "an end of a quote": ({"a": 'x"\nto: "b', 'a"]: 1': 2}, [r'a: "x\"\nto: \"b"', r'["a\"]: 1"]: 2']),
    "numbers": (
        {"n": 10**30, "i": 2**53 + 1, "f": 1e300, "z": -0.0},
        [f"n: {10**30}", f"i: {2**53 + 1}", "f: 1e300", "z: -0.0"],
    ),
    "a long number": (
        {"n": int("1" * 120 + "2" * 41 + "3" * 40)},
        [f"n: {'1' * 120} … 41 characters are left out … {'3' * 40}"],
    ),
    "what is not cut": ({"x" * 300: "y" * 200}, [f'{"x" * 300}: "{"y" * 200}"']),
    "hidden characters at a cut": (
        {"a": "\u200b" * 201},
        [f'a: "{chr(92)}u200b{(chr(92) + "u200b") * 119}" … 41 characters are left out … "{(chr(92) + "u200b") * 40}"'],
    ),
    "a text that looks cut": (
        {"a": f"{'a' * 120} … 5 characters are left out … b"},
        [f'a: "{"a" * 120} … 5 characters are left out … b"'],
    ),
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


def test_beside_an_argument_that_is_spread_no_default_is_shown_since_none_is_sent() -> None:
    spread = {"spread_argument": "params", "sent": {"fee": 2}}
    assert lines_of({"params": {"to": "bob"}}, **spread) == ["With these arguments:", 'params.to: "bob"']
    binding = Binding("pay", Structure.BY_NAME, **spread)
    assert build_params(binding, {"params": {"to": "bob"}}) == {"to": "bob"}


@each(
    "arguments",
    {
        "many": {"many": list(range(MOST_LINES + 1))},
        "long values": {f"n{number}": "x" * 190 for number in range(MOST_LINES)},
        "a long name": {"x" * (MOST_CHARACTERS + 1): 1},
        "a deep name": {"x" * 3000: {"y" * 3000: {"z" * 3000: 1}}},
        "a long name of hidden characters": {"\u200b" * 350_000: 1},
        "a long name of marks": {"a" + "\u0316\u0301" * 250_000: 1},
        "many containers": {"a": [[]] * 50_000},
    },
)
def test_what_nobody_reads_to_its_end_is_refused(arguments: dict[str, Any]) -> None:
    with quickly(0.05), pytest.raises(ConfirmationTooLong, match="50 values or 8000 characters"):
        lines_of(arguments)


@each("text", ["x" * 1_000_000, "\u200b" * 350_000, "a" + "\u0316\u0301" * 250_000, "😀" * 250_000])
def test_a_large_value_holds_nobody_up(text: str) -> None:
    with quickly(0.05):
        assert "left out" in lines_of({"text": text})[1]


def test_as_much_as_may_be_is_shown() -> None:
    assert len(lines_of({"many": list(range(MOST_LINES))})) == MOST_LINES + 1


def test_a_title_and_a_description_are_quoted_and_the_name_is_the_tools() -> None:
    pay = Tool("pay", "pay", 'Pay"?\nx', {}, tool().binding, title='Read of shop?\nWith these arguments:\na: 1"\u202e')
    assert consent_request(pay, {"a": 5}, " of bank")["params"]["message"].split("\n") == [
        "Run pay of bank?",
        r'Its title: "Read of shop?\nWith these arguments:\na: 1\"\u202e"',
        r'Its description: "Pay\"?"',
        "With these arguments:",
        "a: 5",
    ]


_FEW = 'ab.[]"\\\n :\u200b\u202e\ufe0f\u00e9e\u0301\x7f…'
_TEXTS = st.text(st.sampled_from(_FEW), max_size=6) | st.text(max_size=3)
_LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _TEXTS
_LONG = st.text("ab", min_size=80, max_size=83).map(lambda end: "x" * 119 + end)
_VALUES = st.recursive(
    _LEAVES | _LONG,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=6,
)
_ARGUMENTS = st.dictionaries(_TEXTS, _VALUES, max_size=4)


@settings(max_examples=300)
@given(_ARGUMENTS, _ARGUMENTS)
def test_two_calls_whose_arguments_differ_show_different_texts(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Unless a value was cut, which no value can say of itself. All of a text can be seen, and looks like no other."""
    texts = ["\n".join(lines_of(arguments)) for arguments in (one, other)]
    same = json.dumps(one) == json.dumps(other)
    assert (texts[0] == texts[1]) == same or '" … ' in texts[0]
    for line in texts[0].split("\n"):
        assert line.isprintable()
        assert unicodedata.is_normalized("NFC", line)
        assert not {*line} & {*"\u200d\ufe0f\u2800\u034f\u3164"}


@given(_TEXTS)
def test_what_is_shown_of_a_text_is_json_of_it(text: str) -> None:
    line, named = lines_of({"to": text, f". {text}": 1})[1:]
    assert json.loads(line.removeprefix("to: ")) == text
    assert json.loads(named.removeprefix("[").removesuffix("]: 1")) == f". {text}"


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
