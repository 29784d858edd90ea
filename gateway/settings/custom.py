"""How a listing is read whose form is the service's own: where to ask, and where in the answer things stand."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import JsonValue, Secret, field_validator, model_validator

from gateway.settings.jsonpath import JsonPath
from gateway.settings.knobs import Document, knob, texts_in


class CustomParameter(Document):
    """Where things stand in the entry of a parameter; ``$`` is the entry."""

    name: JsonPath | None = knob(
        None, "Its name; absent: the key that the entry stands under, or the entry itself where it is text in a list."
    )
    schema_: JsonPath | None = knob(None, "Its JSON Schema.", alias="schema")
    type: JsonPath | None = knob(None, "Its type as a word (int, str, list, …); used where there is no schema.")
    required: JsonPath | None = knob(None, "Whether it has to be given: true, 1, or the word true or yes.")
    optional: JsonPath | None = knob(None, "The opposite, for services that say it so: all others are required.")
    description: JsonPath | None = knob(None, "What it means.")

    @model_validator(mode="after")
    def _check_required(self) -> CustomParameter:
        if self.required is not None and self.optional is not None:
            raise ValueError("required and optional say the same thing; name one of them")
        return self


class CustomListing(Document):
    """How a service lists its methods in a form of its own. In the paths of an entry ``$`` is the entry."""

    method: str | None = knob(
        None, "JSON-RPC method that answers with the listing. Absent: it is the answer to a GET.", min_length=1
    )
    params: Secret[JsonValue] | None = knob(None, "Params of that method.")
    methods: JsonPath | None = knob(None, "JSONPath (RFC 9535) to the entries of the methods, e.g. $.functions[*].")
    name: JsonPath | None = knob(
        None,
        "In an entry, the name to call; absent: the key that the entry stands under, or the entry itself where it is "
        "text in a list.",
    )
    title: JsonPath | None = knob(None, "In an entry, a short title for people.")
    description: JsonPath | None = knob(None, "In an entry, what the method does.")
    parameters: JsonPath | None = knob(
        None, "In an entry, the entries of the parameters, e.g. $.args[*]. Absent: the arguments are left open."
    )
    parameter: CustomParameter = knob(CustomParameter, "Where things stand in the entry of a parameter.")
    input_schema: JsonPath | None = knob(
        None, "In an entry, one JSON Schema of all arguments; where it selects none, parameters tell."
    )
    result: JsonPath | None = knob(None, "In an entry, the JSON Schema of the result, or a word for its type.")

    def secrets(self) -> Iterator[str]:
        """The texts in ``params``, which may hold a token."""
        return texts_in(None if self.params is None else self.params.get_secret_value())

    @field_validator("params")
    @classmethod
    def _check_params(cls, params: Secret[JsonValue] | None) -> Secret[JsonValue] | None:
        if params is not None and not isinstance(params.get_secret_value(), list | dict):
            raise ValueError("must be a list or an object, as JSON-RPC has it")
        return params

    @model_validator(mode="after")
    def _check_what_belongs_together(self) -> CustomListing:
        if self.params is not None and self.method is None:
            raise ValueError("params are those of a method: name it")
        if self.parameters is None and self.parameter != CustomParameter():
            raise ValueError("parameter says where things stand in what parameters selects: name that")
        return self
