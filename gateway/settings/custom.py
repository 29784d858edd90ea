"""Define the knobs of a custom listing: where to ask, and which paths select what in the answer."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import JsonValue, Secret, field_validator, model_validator

from gateway.settings.jsonpath import JsonPath
from gateway.settings.knobs import Document, knob, texts_in


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

    @model_validator(mode="after")
    def _check_required(self) -> CustomParameter:
        if self.required is not None and self.optional is not None:
            raise ValueError("required and optional exclude each other: set one of them")
        return self


class CustomListing(Document):
    """Paths that read a listing in the service's own form. In the paths of an entry ``$`` is the entry."""

    method: str | None = knob(None, "JSON-RPC method that returns the listing. Absent: a GET returns it.", min_length=1)
    params: Secret[JsonValue] | None = knob(None, "Params of that method.")
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

    def secrets(self) -> Iterator[str]:
        """Yield the texts in ``params``, which may hold a token."""
        return texts_in(None if self.params is None else self.params.get_secret_value())

    @field_validator("params")
    @classmethod
    def _check_params(cls, params: Secret[JsonValue] | None) -> Secret[JsonValue] | None:
        if params is not None and not isinstance(params.get_secret_value(), list | dict):
            raise ValueError("must be a list or an object, as JSON-RPC requires")
        return params

    @model_validator(mode="after")
    def _check_combinations(self) -> CustomListing:
        if self.params is not None and self.method is None:
            raise ValueError("params needs method, the JSON-RPC method that gets them")
        if self.parameters is None and self.parameter != CustomParameter():
            raise ValueError("parameter needs parameters, the JSONPath to the entries that it reads")
        return self
