"""Define JSONPath (RFC 9535) as the value of a knob: checked with the configuration, applied to what strangers send."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import Annotated, Any

from jsonpath_rfc9535 import JSONPathEnvironment, JSONPathError, JSONPathNameError, JSONPathQuery
from pydantic import PlainSerializer, PlainValidator, WithJsonSchema


class _Environment(JSONPathEnvironment):
    """Leave out ``match`` and ``search``: they backtrack, and a stranger chooses the text."""

    def setup_function_extensions(self) -> None:
        super().setup_function_extensions()
        for function in ("match", "search"):
            del self.function_extensions[function]


_ENVIRONMENT = _Environment()


@dataclass(frozen=True)
class Path:
    """Hold a compiled expression. Expressions with the same ``text`` are equal."""

    text: str
    _query: JSONPathQuery = field(repr=False, compare=False)

    def __str__(self) -> str:
        return self.text

    def find(self, document: Any, most: int) -> list[tuple[str | None, Any]]:
        """Return the first ``most`` selected values, each with its member name, or None for an element of a list.

        Raises :class:`ValueError` for a document that is nested too deeply for the expression.
        """
        try:
            nodes = list(islice(self._query.finditer(document), most))
        except (JSONPathError, RecursionError):
            raise ValueError(f"nested too deeply for {self.text}") from None
        return [(_member(node.location), node.value) for node in nodes]

    def first(self, document: Any) -> Any:
        """Return the first selected value, or None. Raises as :meth:`find` does."""
        found = self.find(document, 1)
        return found[0][1] if found else None


def _member(location: tuple[int | str, ...]) -> str | None:
    return location[-1] if location and isinstance(location[-1], str) else None


def parse_path(value: Any) -> Path:
    """Return the compiled expression. Raises :class:`ValueError` for what is not one."""
    if isinstance(value, Path):
        return value
    if not isinstance(value, str):
        raise ValueError("must be a JSONPath (RFC 9535) such as $.methods[*]")  # noqa: TRY004, pydantic collects it
    try:
        return Path(value, _ENVIRONMENT.compile(value))
    except JSONPathNameError as error:
        raise ValueError(f"{error}; match() and search() are not available, use length(), count(), value()") from None
    except (JSONPathError, RecursionError) as error:
        raise ValueError(f"is not a JSONPath (RFC 9535) such as $.methods[*]: {error}") from None


JsonPath = Annotated[
    Path, PlainValidator(parse_path), PlainSerializer(str), WithJsonSchema({"type": "string", "pattern": r"^\$"})
]
