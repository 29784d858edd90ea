"""Define the knobs of a custom listing: where to ask, and which paths select what in the answer."""

from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import JsonValue, PlainSerializer, PlainValidator, Secret, WithJsonSchema

from gateway.settings.knobs import Document, checked, knob

if TYPE_CHECKING:
    from jsonpath_rfc9535 import JSONPathEnvironment


@cache
def _environment() -> "JSONPathEnvironment":
    """Return the library's functions without ``match`` and ``search``: they backtrack, and a stranger chooses the text.

    Most services have no path, and the library takes 2 MiB: so it is loaded with the first one, here and below.
    """
    from jsonpath_rfc9535 import JSONPathEnvironment  # noqa: PLC0415

    environment = JSONPathEnvironment()
    for function in ("match", "search"):
        del environment.function_extensions[function]
    return environment


@dataclass(frozen=True)
class Path:
    """Hold a compiled expression. Expressions with the same ``text`` are equal."""

    text: str
    _query: Any = field(repr=False, compare=False)

    def __str__(self) -> str:
        return self.text

    @property
    def leads_to_one(self) -> bool:
        return bool(self._query.singular_query())

    def find(self, document: Any, most: int) -> list[tuple[str | None, Any]]:
        """Return the first ``most`` selected values, each with its member name, or None for an element of a list.
        Raises :class:`ValueError` for a document that is nested too deeply for the expression."""
        from jsonpath_rfc9535 import JSONPathError  # noqa: PLC0415

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
    from jsonpath_rfc9535 import JSONPathError, JSONPathNameError  # noqa: PLC0415

    try:
        return Path(value, _environment().compile(value))
    except JSONPathNameError as error:
        raise ValueError(f"{error}; match() and search() are not available, use length(), count(), value()") from None
    except (JSONPathError, RecursionError) as error:
        raise ValueError(f"is not a JSONPath (RFC 9535) such as $.methods[*]: {error}") from None


JsonPath = Annotated[
    Path, PlainValidator(parse_path), PlainSerializer(str), WithJsonSchema({"type": "string", "pattern": r"^\$"})
]
PathToOne = Annotated[
    JsonPath,
    checked(lambda path: path.leads_to_one, "may lead to many values: use names and indexes alone, e.g. $.data.items"),
]
"""A path whose cost does not depend on the document."""


SecretParams = Annotated[
    Secret[JsonValue],
    checked(
        lambda one: isinstance(one.get_secret_value(), list | dict), "must be a list or an object, as JSON-RPC requires"
    ),
]


class CustomParameter(Document):
    """Paths in the entry of a parameter; ``$`` is the entry."""

    name: JsonPath | None = knob(
        None, "Name of the parameter. Absent: the key of the entry, or the entry itself where it is a text in a list."
    )
    schema_: JsonPath | None = knob(None, "JSON Schema of the parameter.", alias="schema")
    type: JsonPath | None = knob(None, "Type as a word (int, str, list, …). It counts where there is no schema.")
    required: JsonPath | None = knob(None, "Whether the parameter is required: true, 1, or the word true or yes.")
    optional: JsonPath | None = knob(None, "Whether it is optional, for services that mark these; others are required.")
    description: JsonPath | None = knob(None, "Description of the parameter.")

    def conflict(self) -> str:
        both = self.required is not None and self.optional is not None
        return "required and optional exclude each other: set one of them" if both else ""


class CustomListing(Document):
    """Paths that read a listing in the service's own form. In the paths of an entry ``$`` is the entry."""

    method: str | None = knob(None, "JSON-RPC method that returns the listing. Absent: a GET returns it.", min_length=1)
    params: SecretParams | None = knob(None, "Params of that method.")
    methods: JsonPath | None = knob(None, "JSONPath (RFC 9535) to the entries of the methods, e.g. $.functions[*].")
    name: JsonPath | None = knob(
        None,
        "In an entry, the name of the method. Absent: the key of the entry, or the entry itself where it is a text in "
        "a list.",
    )
    title: JsonPath | None = knob(None, "In an entry, a short title for people.")
    description: JsonPath | None = knob(None, "In an entry, what the method does.")
    parameters: JsonPath | None = knob(
        None, "In an entry, the entries of the parameters, e.g. $.args[*]. Absent: all arguments are accepted."
    )
    parameter: CustomParameter = knob(CustomParameter, "Paths in the entry of a parameter.")
    input_schema: JsonPath | None = knob(
        None, "In an entry, one JSON Schema of all arguments. Where it selects nothing, parameters counts."
    )
    result: JsonPath | None = knob(None, "In an entry, the JSON Schema of the result, or a word for its type.")

    def conflict(self) -> str:
        if self.params is not None and self.method is None:
            return "params needs method, the JSON-RPC method that gets them"
        if self.parameters is None and self.parameter != CustomParameter():
            return "parameter needs parameters, the JSONPath to the entries that it reads"
        return ""
