"""JSON as PHP's json_encode() writes it, which a caller must read byte by byte to believe.

One array type: an empty one is `[]`, map or list. Slashes are escaped, everything beyond ASCII too.
"""

import json
import re
from typing import Any

# Symfony's JsonResponse asks for JSON_HEX_TAG | JSON_HEX_APOS | JSON_HEX_AMP | JSON_HEX_QUOT.
_HEX = {"<": r"\u003C", ">": r"\u003E", "'": r"\u0027", "&": r"\u0026", r"\"": r"\u0022", "/": r"\/"}
_PLAIN = {"/": r"\/"}


def encode(value: Any, *, hex_quotes: bool = True) -> str:
    """`hex_quotes` as responses do; without it, as json_encode() does by default."""
    if isinstance(value, dict) and value:
        members = (f"{encode(k, hex_quotes=hex_quotes)}:{encode(v, hex_quotes=hex_quotes)}" for k, v in value.items())
        return "{" + ",".join(members) + "}"
    if isinstance(value, dict | list | tuple):
        return "[" + ",".join(encode(item, hex_quotes=hex_quotes) for item in value) + "]"
    if isinstance(value, str):
        escapes = _HEX if hex_quotes else _PLAIN
        # `\\.` comes first, so that the second half of an escape is never taken for a character.
        return re.sub(r"\\.|[<>'&/]", lambda found: escapes.get(found[0], found[0]), json.dumps(value))
    return json.dumps(value)


def type_name(value: Any) -> str:
    """gettype(), with a capital, after json_decode() to arrays."""
    names = {bool: "Boolean", int: "Integer", float: "Double", str: "String", type(None): "NULL"}
    return names.get(type(value), "Array")
