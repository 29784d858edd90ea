"""Count the tokens of Python files: the measure of size, since a count of lines only folds them.

A docstring is one token and so is an f-string, on every Python. Comments, line ends and indents are none.
"""

from __future__ import annotations

import tokenize
from io import StringIO
from typing import Final

_NONE: Final = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENCODING, tokenize.ENDMARKER,
}  # fmt: skip
# Python 3.12 takes f-strings apart, and 3.14 template strings.
_BEGINS: Final = {getattr(tokenize, name, None) for name in ("FSTRING_START", "TSTRING_START")} - {None}
_ENDS: Final = {getattr(tokenize, name, None) for name in ("FSTRING_END", "TSTRING_END")} - {None}


def tokens_of(text: str) -> int:
    """Return how many tokens the text of a module has. Raise SyntaxError or TokenError where it is not Python."""
    count, depth = 0, 0
    for token in tokenize.generate_tokens(StringIO(text).readline):
        if token.type in _ENDS:
            depth -= 1
        elif depth == 0 and token.type not in _NONE:
            count += 1
        if token.type in _BEGINS:
            depth += 1
    return count
