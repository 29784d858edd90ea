"""Gives the functions of a module that is imported already the code of a mutant."""

from __future__ import annotations

import gc
from types import CodeType, FunctionType

from lab.mutate.mutants import Mutant


def swap(source: bytes, path: str, mutant: Mutant) -> int:
    """Return how many functions have other code now; 0 where the change is none of a function's, as of a constant.

    Raises :class:`ValueError` where the new code has other free variables.
    """
    before = _codes(compile(source, path, "exec"))
    after = _codes(compile(mutant.applied(source), path, "exec"))
    living: dict[tuple[str, int], list[FunctionType]] = {}
    for one in gc.get_objects():
        if isinstance(one, FunctionType) and one.__module__ == mutant.module:
            living.setdefault(_name(one.__code__), []).append(one)
    changed = 0
    for name, codes in before.items():
        for was, now in zip(codes, after.get(name, ()), strict=False):
            for function in () if _alike(was, now) else living.get(_name(was), ()):
                function.__code__ = now
                changed += 1
    return changed


def _name(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


def _codes(code: CodeType) -> dict[str, list[CodeType]]:
    """Return the code of each function, class and comprehension within, by its name."""
    found: dict[str, list[CodeType]] = {}
    waiting = [code]
    while waiting:
        for constant in waiting.pop().co_consts:
            if isinstance(constant, CodeType):
                found.setdefault(constant.co_qualname, []).append(constant)
                waiting.append(constant)
    return found


def _alike(one: CodeType, other: CodeType) -> bool:
    """Say whether both do the same: the lines, on which they stand, may differ."""
    if _frame(one) != _frame(other) or len(one.co_consts) != len(other.co_consts):
        return False
    for left, right in zip(one.co_consts, other.co_consts, strict=True):
        if isinstance(left, CodeType) and isinstance(right, CodeType):
            if not _alike(left, right):
                return False
        elif type(left) is not type(right) or left != right:
            return False
    return True


def _frame(code: CodeType) -> tuple[object, ...]:
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_exceptiontable
