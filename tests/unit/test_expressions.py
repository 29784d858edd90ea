"""No regular expression of ours can be made to take long by what it is matched against.

The engine of the standard library backtracks. Where an unbounded repeat stands within an unbounded one, a text can be
split among them in exponentially many ways, and where two stand next to each other and take the same characters, in
quadratically many; a text that fails in the end has all of them tried, and the interpreter stands still meanwhile.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator, Mapping
from fnmatch import translate
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any, Final, NamedTuple

from gateway.catalog.names import NAME_RULES
from gateway.cli import HINTS
from gateway.diagnosis.products import _FIRST_BYTES
from gateway.diagnosis.said import _RULES
from gateway.diagnosis.store import CAUSES
from tests.each import each
from tests.unit.test_structure import MODULES, path_of

# Names that an expression is made of at run time, with what they may stand for.
MADE_OF: Final[Mapping[str, list[dict[str, Any]]]] = {
    "gateway.cli": [{"fault": fault} for fault in HINTS],
    "gateway.diagnosis.store": [{"row": row} for row in CAUSES],
    "gateway.catalog.names": [{"self": rule} for rule in NAME_RULES.values()],
    "gateway.catalog.curation": [{"together": translate("*a*b?[cd]*")}],
    "gateway.diagnosis.said": [{"words": words} for words, *_ in _RULES],
    "gateway.diagnosis.products": [{"begin": begin} for begin, *_ in _FIRST_BYTES],
}
_TEXTLESS: Final = {"escape", "purge", "Pattern", "Match", "error"}
_REPEATS: Final = (op.MAX_REPEAT, op.MIN_REPEAT)
_ALPHABET: Final = [chr(code) for code in range(128)] + ["\x85", "\xb5", "é", "٣", "日"]


class Expression(NamedTuple):
    """A regular expression and the module that has it."""

    module: str
    pattern: str | bytes
    flags: int = 0

    def __str__(self) -> str:
        return f"{self.module}: {self.pattern!r}"


def expressions() -> list[Expression]:
    """Every expression that a module of the gateway compiles or matches with, those made of others included."""
    return [found for module in MODULES for found in _of_module(module)]


def _of_module(module: str) -> Iterator[Expression]:
    tree = ast.parse(path_of(module).read_text())
    for node in ast.walk(tree):
        renamed = isinstance(node, ast.Import) and any(name.name == "re" and name.asname for name in node.names)
        assert not renamed, f"{module} has another name for re"
        assert not (isinstance(node, ast.ImportFrom) and node.module == "re"), f"{module} imports out of re"
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _function(node.func) is not None]
    named = [node for node in ast.walk(tree) if _function(node) is not None]
    assert len(calls) == len(named), f"{module} has a function of re without calling it"
    for call in calls:
        for local in MADE_OF.get(module, [{}]):
            names = {**vars(importlib.import_module(module)), **local}
            flags = next((keyword.value for keyword in call.keywords if keyword.arg == "flags"), None)
            if _function(call.func) == "compile" and len(call.args) > 1:
                flags = call.args[1]
            yield Expression(module, _value(call.args[0], names), int(_value(flags, names)) if flags else 0)


def _function(node: ast.AST) -> str | None:
    """The name of a function of ``re`` that takes an expression, where the node is one."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "re":
        return None if node.attr in _TEXTLESS or node.attr.isupper() else node.attr
    return None


def _value(node: ast.expr, names: dict[str, Any]) -> Any:
    try:
        return eval(compile(ast.Expression(node), "<expression>", "eval"), names)
    except NameError as error:
        raise AssertionError(f"MADE_OF has to say what {ast.unparse(node)} is made of: {error}") from None


def nested(tree: Any, within: bool = False) -> bool:
    """Whether an unbounded repeat stands within another. What is possessive, atomic or a look-around is not entered
    again once it has matched, so it counts for itself."""
    for kind, value in tree:
        if kind in _REPEATS:
            unbounded = value[1] is op.MAXREPEAT
            if (unbounded and within) or nested(value[2], within or unbounded):
                return True
        elif any(nested(part, within and kind in (op.SUBPATTERN, op.BRANCH)) for part in _parts(kind, value)):
            return True
    return False


def _parts(kind: Any, value: Any) -> list[Any]:
    """The expressions that a node has within itself."""
    if kind is op.BRANCH:
        return list(value[1])
    if kind is op.SUBPATTERN:
        return [value[3]]
    if kind in (op.ASSERT, op.ASSERT_NOT):
        return [value[1]]
    if kind is op.ATOMIC_GROUP:
        return [value]
    if kind in (*_REPEATS, op.POSSESSIVE_REPEAT):
        return [value[2]]
    return [part for part in value[1:] if part] if kind is op.GROUPREF_EXISTS else []


def adjacent(tree: Any, following: tuple[Any, ...] = ()) -> bool:
    """Whether two unbounded repeats follow each other that can share out a run of characters in many ways."""
    nodes = (*_flat(tree), *following)
    for place, (kind, value) in enumerate(nodes[: len(nodes) - len(following)]):
        after = nodes[place + 1 :]
        if kind in _REPEATS and value[1] is op.MAXREPEAT and _meets_its_like(_flat(value[2]), after):
            return True
        if any(adjacent(part, after if kind is op.BRANCH else ()) for part in _parts(kind, value)):
            return True
    return False


def _flat(tree: Any) -> tuple[Any, ...]:
    """The nodes of a sequence, those of its groups among them."""
    inner = (_flat(value[3]) if kind is op.SUBPATTERN else ((kind, value),) for kind, value in tree)
    return tuple(node for nodes in inner for node in nodes)


def _meets_its_like(body: tuple[Any, ...], following: tuple[Any, ...]) -> bool:
    """Whether a repeat of ``body`` is followed by one that can take the same characters.

    What has to stand between them keeps them apart where either cannot take it: the second then goes no further than
    the next place where the first can end.
    """
    taken, between = _characters(body), [_characters([node]) for node in body if _is_needed(node)]
    for node in following:
        kind, value = node
        if kind in (op.ASSERT, op.ASSERT_NOT, op.AT):
            continue
        if kind in (*_REPEATS, op.POSSESSIVE_REPEAT) and value[1] is op.MAXREPEAT:
            second = _characters(value[2])
            if taken & _first(_flat(value[2])) and all(second & characters for characters in between):
                return True
        if _is_needed(node):
            between.append(_characters([node]))
            if not taken & between[-1]:
                return False
    return False


def _is_needed(node: Any) -> bool:
    return bool(_parser.SubPattern(_parser.State(), [node]).getwidth()[0] > 0)


def _first(body: tuple[Any, ...]) -> set[str]:
    """The characters that a repeat of ``body`` may begin with, or more."""
    first: set[str] = set()
    for node in body:
        first |= _characters([node])
        if _is_needed(node):
            break
    return first


def _characters(tree: Any) -> set[str]:
    """The characters that can occur in what an expression matches."""
    found: set[str] = set()
    for kind, value in tree:
        if kind in (op.LITERAL, op.NOT_LITERAL, op.IN, op.ANY):
            single = _parser.SubPattern(_parser.State(), [(kind, value)])
            matches = re._compiler.compile(single, re.DOTALL).fullmatch  # type: ignore[attr-defined]
            found.update(filter(matches, _ALPHABET))
        for part in _parts(kind, value) if kind not in (op.ASSERT, op.ASSERT_NOT) else ():
            found |= _characters(part)
    return found


def parsed(pattern: str | bytes, flags: int = 0) -> Any:
    return _parser.parse(pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern, flags & ~re.UNICODE)


def test_expressions_are_found_wherever_they_are_written() -> None:
    patterns = [str(expression) for expression in expressions()]
    assert len(patterns) > 50
    for known in (
        "trace_context: '(?!ff|00.{54})",
        "authenticator: \"([A-Za-z0-9!#$%&'*+.^_`|~-]+) +([A-Z",
    ):
        assert any(known in pattern for pattern in patterns), known


# The expression for W3C Baggage that the gateway once had: 333 bytes took three seconds.
_NAME, _VALUE = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", r"[!#-+\--:<-\[\]-~]*"
_ENTRY = rf"{_NAME}[ \t]*=[ \t]*{_VALUE}(?:[ \t]*;[ \t]*{_NAME}(?:[ \t]*=[ \t]*{_VALUE})?)*"
BAGGAGE: Final = rf"(?=.{{1,4096}}\Z){_ENTRY}(?:[ \t]*,[ \t]*{_ENTRY})*"

NESTED = [BAGGAGE, "(a+)+$", "(?:a*b?)*", "(?:(?:x|y+)z?){2,}", "(?:a+?)*", "((?:ab)*c?)+", "(?=(a+)+b)", "(?>(a+)+b)"]
APART = ["(?:a++b)*", "(?:a+)*+", "(?>a+)*", "(?:(?>a+)b)*", "(?:a{1,9})*", "(?:a+){2,9}", "a+b*", "(?:(?=a+)b)*"]


@each("pattern", NESTED)
def test_an_unbounded_repeat_within_an_unbounded_one_is_seen(pattern: str) -> None:
    assert nested(parsed(pattern))


@each("pattern", APART)
def test_what_is_possessive_atomic_or_bounded_is_no_nesting(pattern: str) -> None:
    assert not nested(parsed(pattern))


@each(
    "pattern",
    [BAGGAGE, r"\s*\s*x", r"\s*,?\s*x", ".*a.*b", "(a*)a*b", "(?:x|a*)b?a*c", r"\d+\w*!", "(?:a+b?)a+c", "a*(?:ab)*c"],
)
def test_repeats_that_share_out_a_run_of_characters_are_seen(pattern: str) -> None:
    assert adjacent(parsed(pattern))


@each(
    "pattern",
    [r"\s*,\s*x", "a*b*c", "a*+a*b", ".+[(:][^(:]*x", r"(?:[a-z]++\.)+_\w+_", r'"[^"\\]*(?:\\.)*"', "a*(?:/a*+)*b"],
)
def test_repeats_that_something_keeps_apart_pass(pattern: str) -> None:
    assert not adjacent(parsed(pattern))


def test_no_unbounded_repeat_stands_within_an_unbounded_repeat() -> None:
    refused = [str(found) for found in expressions() if nested(parsed(found.pattern, found.flags))]
    assert refused == []


def test_no_two_unbounded_repeats_of_the_same_characters_follow_each_other() -> None:
    refused = [str(found) for found in expressions() if adjacent(parsed(found.pattern, found.flags))]
    assert refused == []
