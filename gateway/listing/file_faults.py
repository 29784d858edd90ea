"""Say what is wrong in a listing file, in the words of YAML, and in which line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

import yaml
from jsonschema import ValidationError

from gateway.text import did_you_mean

_KINDS: Final = {"object": "a mapping", "string": "a text", "boolean": "true or false", "null": "empty"}
_REST: Final = {
    "pattern": "must be a path on the service, such as /rpc",
    "minLength": "a name must not be empty",
    "maxLength": "the name is too long",
}


@dataclass(frozen=True, slots=True)
class FileFault:
    """Hold one fault: the path to the value, and what is wrong with it."""

    path: tuple[str | int, ...]
    text: str

    def __str__(self) -> str:
        return f"{'.'.join(map(str, self.path))}: {self.text}" if self.path else self.text


def describe_faults(errors: Iterable[ValidationError]) -> Iterator[FileFault]:
    """Yield the faults in the words of YAML."""
    for error in errors:
        path, wanted = tuple(error.absolute_path), cast(Any, error.validator_value)
        if error.validator == "additionalProperties":
            known = list(cast(dict[str, Any], error.schema)["properties"])
            for key in cast(dict[str, Any], error.instance):
                if key not in known:
                    yield FileFault(
                        (*path, key), f"unknown key; known here: {', '.join(known)}{did_you_mean(key, known)}"
                    )
        elif error.validator == "type":
            kinds = [wanted] if isinstance(wanted, str) else wanted
            yield FileFault(path, f"must be {' or '.join(_KINDS.get(kind, kind) for kind in kinds)}")
        elif error.validator == "enum":
            yield FileFault(path, f"must be one of {', '.join(wanted)}{did_you_mean(error.instance, wanted)}")
        elif error.validator == "required":
            yield FileFault(
                path, f"lacks {', '.join(name for name in wanted if name not in cast(dict[str, Any], error.instance))}"
            )
        else:
            yield FileFault(path, _REST.get(str(error.validator), "cannot be used"))


def find_lines(raw: bytes, paths: Iterable[tuple[str | int, ...]]) -> list[int]:
    """Return the line, from 1 on, of each value in a file that could be read. That of a member is its name's; 1 where
    YAML cannot read the file, because it is JSON with control characters or nested deeply."""
    try:
        root = yaml.compose(raw, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError):
        root = None
    return [_line(root, path) for path in paths]


def _line(node: Any, path: tuple[str | int, ...]) -> int:
    mark = node.start_mark if node is not None else None
    for key in path:
        if isinstance(node, yaml.MappingNode):
            found = next(((name, value) for name, value in node.value if name.value == str(key)), None)
            if found is None:
                break
            mark, node = found[0].start_mark, found[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(key, int):
            node = node.value[key]
            mark = node.start_mark
    return 1 if mark is None else mark.line + 1
