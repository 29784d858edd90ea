"""The changes that can be made to a file, each as a person could get it wrong.

Left alone are docstrings, annotations, f-strings, asserts, log lines, and what a ``raise`` says.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Final

_OTHER_COMPARISON: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_OTHER_OPERATOR: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
}
_NAME_LIKE: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_/.$:-]+")
_LEFT_ALONE: Final = ("TypeVar", "structlog.get_logger", "isinstance", "getattr", "cast")
_LOCKS: Final = ("lock", "timeout", "slots")
_MOST_SHOWN: Final = 100

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Change:
    """Bytes of a file, from and to, and what they become. ``line`` is where a person would look for it."""

    kind: str
    line: int
    span: tuple[int, int]
    new: str
    note: str
    function: str


@dataclass(frozen=True)
class _Scope:
    """Where a node stands."""

    names: tuple[str, ...] = ()
    in_function: bool = False
    in_raise: bool = False


def changes_of(source: str) -> list[Change]:
    """Return all changes of a file, in its order."""
    return list(_Reader(source).of(ast.parse(source), _Scope()))


def _shown(node: ast.AST) -> str:
    return f"`{ast.unparse(node).splitlines()[0][:_MOST_SHOWN]}`"


def _bracketed(node: ast.expr) -> str:
    return f"({ast.unparse(node)})"


class _Reader:
    """Goes through the tree of one file."""

    def __init__(self, source: str) -> None:
        lengths = (len(line) + 1 for line in source.encode().split(b"\n"))
        self._starts = [0, *accumulate(lengths)]
        self._rules: dict[type[ast.AST], Callable[[Any, _Scope], Iterator[Change]]] = {
            ast.Raise: self._raise,
            ast.Return: self._return,
            ast.Expr: self._statement,
            ast.If: self._if,
            ast.AugAssign: self._in_place,
            ast.BinOp: self._arithmetic,
            ast.AsyncWith: self._lock,
            ast.Try: self._finally,
            ast.Assign: self._attribute,
            ast.IfExp: self._branches,
            ast.comprehension: self._filter,
            ast.Dict: self._unpacking,
            ast.Continue: self._continue,
            ast.Break: self._break,
            ast.Compare: self._comparison,
            ast.BoolOp: self._and_or,
            ast.UnaryOp: self._not,
            ast.Constant: self._constant,
            ast.Call: self._call,
            ast.FunctionDef: self._defaults,
            ast.AsyncFunctionDef: self._defaults,
        }

    def of(self, node: ast.AST, scope: _Scope) -> Iterator[Change]:
        """Yield the changes of a node and of all below it."""
        if rule := self._rules.get(type(node)):
            yield from rule(node, scope)
        for child in _below(node):
            yield from self.of(child, _scope_within(node, scope))

    def _make(self, kind: str, nodes: tuple[Any, ...], new: str, note: str, scope: _Scope, line: int = 0) -> Change:
        """Return the change of what stands from the first node to the last one's end."""
        first, last = nodes[0], nodes[-1]
        start = self._starts[first.lineno - 1] + first.col_offset
        end = self._starts[last.end_lineno - 1] + last.end_col_offset
        return Change(kind, line or first.lineno, (start, end), new, note, ".".join(scope.names))

    # statements

    def _raise(self, node: ast.Raise, scope: _Scope) -> Iterator[Change]:
        if scope.in_function:
            yield self._make("raise", (node,), "pass", f"without {_shown(node)}", scope)

    def _return(self, node: ast.Return, scope: _Scope) -> Iterator[Change]:
        if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            yield self._make("return", (node,), "return None", f"{_shown(node)} -> return None", scope)

    def _statement(self, node: ast.Expr, scope: _Scope) -> Iterator[Change]:
        call = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(call, ast.Call) and not _is_left_alone(call):
            yield self._make("statement", (node,), "pass", f"without {_shown(node)}", scope)

    def _if(self, node: ast.If, scope: _Scope) -> Iterator[Change]:
        raises = len(node.body) == 1 and isinstance(node.body[0], ast.Raise)
        if not raises and not _is_for_types(node):  # what raises has a change of its own
            note = f"nothing under `if {ast.unparse(node.test)[:_MOST_SHOWN]}`"
            yield self._make("if", tuple(node.body), "pass", note, scope, node.lineno)

    def _in_place(self, node: ast.AugAssign, scope: _Scope) -> Iterator[Change]:
        yield self._make("in place", (node,), "pass", f"without {_shown(node)}", scope)
        if isinstance(node.op, ast.Add | ast.Sub):
            other = ast.AugAssign(node.target, _OTHER_OPERATOR[type(node.op)](), node.value)
            yield self._make("arithmetic", (node,), ast.unparse(other), f"{_shown(node)} -> {_shown(other)}", scope)

    def _lock(self, node: ast.AsyncWith, scope: _Scope) -> Iterator[Change]:
        entered = node.items[0]
        text = ast.unparse(entered.context_expr)
        if len(node.items) == 1 and entered.optional_vars is None and any(word in text for word in _LOCKS):
            yield self._make(
                "lock", (node, entered.context_expr), "if True", f"without `async with {text[:_MOST_SHOWN]}`", scope
            )

    def _finally(self, node: ast.Try, scope: _Scope) -> Iterator[Change]:
        if node.finalbody:
            note = f"nothing in `finally`: {_shown(node.finalbody[0])}"
            yield self._make("finally", tuple(node.finalbody), "pass", note, scope)

    def _attribute(self, node: ast.Assign, scope: _Scope) -> Iterator[Change]:
        is_later = scope.in_function and scope.names[-1] != "__init__"
        if isinstance(node.targets[0], ast.Attribute) and is_later:
            yield self._make("attribute", (node,), "pass", f"without {_shown(node)}", scope)

    def _continue(self, node: ast.Continue, scope: _Scope) -> Iterator[Change]:
        yield self._make("loop", (node,), "break", "continue -> break", scope)

    def _break(self, node: ast.Break, scope: _Scope) -> Iterator[Change]:
        yield self._make("loop", (node,), "continue", "break -> continue", scope)

    def _defaults(self, node: _Function, scope: _Scope) -> Iterator[Change]:
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if isinstance(default, ast.Constant) and isinstance(default.value, bool | int | float):
                was = default.value
                new = repr(not was) if isinstance(was, bool) else repr(was + 1)
                yield self._make("default", (default,), new, f"default {was!r} -> {new} of {node.name}", scope)

    # expressions

    def _arithmetic(self, node: ast.BinOp, scope: _Scope) -> Iterator[Change]:
        if type(node.op) in _OTHER_OPERATOR and not scope.in_raise and not _has_text(node):
            other = ast.BinOp(node.left, _OTHER_OPERATOR[type(node.op)](), node.right)
            yield self._make("arithmetic", (node,), _bracketed(other), f"{_shown(node)} -> {_shown(other)}", scope)

    def _branches(self, node: ast.IfExp, scope: _Scope) -> Iterator[Change]:
        other = ast.IfExp(node.test, node.orelse, node.body)
        yield self._make("branches", (node,), _bracketed(other), f"{_shown(node)} with its branches swapped", scope)

    def _filter(self, node: ast.comprehension, scope: _Scope) -> Iterator[Change]:
        for condition in node.ifs:
            yield self._make("filter", (condition,), "True", f"comprehension without `if` {_shown(condition)}", scope)

    def _unpacking(self, node: ast.Dict, scope: _Scope) -> Iterator[Change]:
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None and scope.in_function:
                yield self._make("unpacking", (value,), "{}", f"a dict without ** of {_shown(value)}", scope)

    def _comparison(self, node: ast.Compare, scope: _Scope) -> Iterator[Change]:
        other = ast.Compare(node.left, [_OTHER_COMPARISON[type(node.ops[0])](), *node.ops[1:]], node.comparators)
        yield self._make("comparison", (node,), _bracketed(other), f"{_shown(node)} -> {_shown(other)}", scope)

    def _and_or(self, node: ast.BoolOp, scope: _Scope) -> Iterator[Change]:
        word, operator = ("or", ast.Or()) if isinstance(node.op, ast.And) else ("and", ast.And())
        other = ast.BoolOp(operator, node.values)
        yield self._make("and or", (node,), _bracketed(other), f"{_shown(node)} with `{word}`", scope)

    def _not(self, node: ast.UnaryOp, scope: _Scope) -> Iterator[Change]:
        if isinstance(node.op, ast.Not):
            yield self._make("not", (node,), _bracketed(node.operand), f"{_shown(node)} without not", scope)

    def _constant(self, node: ast.Constant, scope: _Scope) -> Iterator[Change]:
        was = node.value
        if isinstance(was, bool):
            yield self._make("constant", (node,), repr(not was), f"{was} -> {not was}", scope)
        elif isinstance(was, int | float):
            for other in (was - 1, was + 1):
                yield self._make("constant", (node,), f"({other!r})", f"{was!r} -> {other!r}", scope)
        elif isinstance(was, str) and _NAME_LIKE.fullmatch(was) and not scope.in_raise:
            yield self._make("text", (node,), repr(was + "x"), f"{was!r} -> {was + 'x'!r}", scope)

    def _call(self, node: ast.Call, scope: _Scope) -> Iterator[Change]:
        name = ast.unparse(node.func)
        if _is_left_alone(node) or not node.args or any(isinstance(given, ast.Starred) for given in node.args):
            return
        if name == "asyncio.shield":
            yield self._make("shield", (node,), _bracketed(node.args[0]), f"{_shown(node)} without shield", scope)
        elif name in ("min", "max") and len(node.args) == 2:
            other = ast.Call(ast.Name("max" if name == "min" else "min"), node.args, node.keywords)
            yield self._make("min max", (node,), ast.unparse(other), f"{_shown(node)} -> {_shown(other)}", scope)
        elif len(node.args) >= 2 and not scope.in_raise:
            other = ast.Call(node.func, [node.args[1], node.args[0], *node.args[2:]], node.keywords)
            note = f"{_shown(node)} with its first two arguments swapped"
            yield self._make("swap", (node,), ast.unparse(other), note, scope)


def _scope_within(node: ast.AST, scope: _Scope) -> _Scope:
    if isinstance(node, _Function):
        return replace(scope, names=(*scope.names, node.name), in_function=True)
    if isinstance(node, ast.ClassDef):
        return replace(scope, names=(*scope.names, node.name))
    return replace(scope, in_raise=scope.in_raise or isinstance(node, ast.Raise))


def _below(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below one whose changes say something."""
    if isinstance(node, _Function | ast.ClassDef):
        yield from node.body
    elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.Assign):
        if node.value is not None:
            yield node.value
    elif not any(leaves(node) for leaves in (_is_never_changed, _is_docstring, _is_left_alone, _is_for_types)):
        yield from ast.iter_child_nodes(node)


def _is_never_changed(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr | ast.Assert)


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_left_alone(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = ast.unparse(node.func)
    return name in _LEFT_ALONE or name.startswith("log.")


def _has_text(node: ast.AST) -> bool:
    """Say whether a text is among the operands, which has no minus."""
    return any(
        isinstance(one, ast.JoinedStr) or (isinstance(one, ast.Constant) and isinstance(one.value, str | bytes))
        for one in ast.walk(node)
    )
