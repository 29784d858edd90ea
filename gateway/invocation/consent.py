"""Write what a person is asked before a tool runs: every argument that is sent, as it is sent.

Each leaf (a text, a number, a truth value, null, an empty object or list) stands on a line of its own behind its path,
as JSON: ``transfer.to: "bob"``, ``params[2]: 5``, ``["a.b"]: {}``. Characters that nobody sees, line breaks and
backslashes are escapes, in names too. So two calls with different arguments show different texts, unless one shows that
a value was cut. A model chooses the arguments: what a person cannot read to its end is refused, not shortened. No more
of them is read than is shown: to escape a mebibyte would hold the event loop.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from gateway import jsonrpc
from gateway.backend.params import all_arguments
from gateway.errors import ConfirmationTooLong
from gateway.model import JsonObject, Tool
from gateway.text import escape_hidden

MOST_LINES: Final = 50
MOST_CHARACTERS: Final = 8_000
_TOO_LONG: Final = (
    f"A person has to agree to this call, and its arguments have more than {MOST_LINES} values or {MOST_CHARACTERS} "
    "characters to read; call with fewer or shorter ones. It was not sent"
)
_MOST_OF_VALUE: Final = 200
"""Characters of a value that are shown whole."""
_FIRST: Final = 120
_LAST: Final = 40
"""Characters of a longer one that are shown: at its beginning, and at its end."""
_PLAIN_NAME: Final = re.compile("[A-Za-z0-9_-]+")


def consent_request(tool: Tool, arguments: Mapping[str, Any], of: str) -> JsonObject:
    """Return the elicitation that asks a person about a call. ``of`` says whose tool it is, at a group. Raise
    :class:`ConfirmationTooLong`."""
    shown = _shown(tool, arguments)
    texts = (("title", tool.title), ("description", tool.description.partition("\n")[0]))
    said = (f"Its {what}: {_value(text)}" for what, text in texts if text)
    message = "\n".join((f"Run {tool.name}{of}?", *said, *shown))
    schema = {"type": "object", "properties": {}}
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}


def _shown(tool: Tool, arguments: Mapping[str, Any]) -> list[str]:
    """Return the lines about the arguments: of the caller, and those that are sent where the caller leaves them out.
    What the operator fixed is counted."""
    binding = tool.binding
    fixed = binding.fixed_arguments
    sent = {name: value for name, value in all_arguments(binding, arguments).items() if name not in fixed}
    given = binding.publish_params(sent)
    lines, size = [], 0
    for path, value in _leaves("", given) if given else ():
        lines.append(f"{path}: {_value(value)}")
        size += len(lines[-1])
        if len(lines) > MOST_LINES or size > MOST_CHARACTERS:
            raise ConfirmationTooLong(_TOO_LONG)
    head = "With these arguments:" if lines else "Without arguments."
    counted = f"and {len(fixed)} that the operator has set" if fixed else ""
    return [head, *lines, *filter(None, (counted,))]


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the path to each leaf, and the leaf. Raise :class:`ConfirmationTooLong` for a path that is too long."""
    if len(path) > MOST_CHARACTERS:
        raise ConfirmationTooLong(_TOO_LONG)
    if isinstance(value, Mapping) and value:
        for name, member in value.items():
            yield from _leaves(_member(path, name), member)
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from _leaves(f"{path}[{index}]", item)
    else:
        yield path, value


def _member(path: str, name: str) -> str:
    """Return the path to a member of the object at a path."""
    if len(name) > MOST_CHARACTERS:
        raise ConfirmationTooLong(_TOO_LONG)
    if _PLAIN_NAME.fullmatch(name) is None:
        return f"{path}[{_text(name)}]"
    return f"{path}.{name}" if path else name


def _value(value: Any) -> str:
    """Return the JSON of a leaf, or of its beginning and its end. How much is left out stands outside of quotes, where
    no value can say so."""
    text, write = (value, _text) if isinstance(value, str) else (jsonrpc.encode(value).decode(), str)
    if len(text) <= _MOST_OF_VALUE:
        return write(text)
    left_out = len(text) - _FIRST - _LAST
    return f"{write(text[:_FIRST])} … {left_out} characters are left out … {write(text[-_LAST:])}"


def _text(text: str) -> str:
    return escape_hidden(json.dumps(text, ensure_ascii=False))
