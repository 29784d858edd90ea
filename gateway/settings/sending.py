"""Define the knobs that say where a credential goes in a request, and how the gateway logs in."""

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, JsonValue, Secret, SecretStr, field_validator, model_validator

from gateway.settings.custom import JsonPath, SecretParams
from gateway.settings.knobs import NAME_PATTERN, Document, checked, knob, texts_in

# Fill templates with values found out later, such as the token of a login. ``{name}`` is a value, ``{base64(…)}``
# encodes its text once that is filled: ``{base64({user}:{id})}``. Other braces stay as they are. A text that is one
# name alone becomes the value itself, which may be a number.
_NAME: Final = re.compile(rf"\{{({NAME_PATTERN})\}}")
_PART: Final = re.compile(rf"\{{base64\(((?:[^{{}}]|\{{{NAME_PATTERN}\}})*)\)\}}|\{{({NAME_PATTERN})\}}")


def names_in(value: Any) -> Iterator[str]:
    """Yield each name in the texts of a JSON value."""
    for text in texts_in(value):
        yield from _NAME.findall(text)


def fill(value: Any, values: Mapping[str, str | int]) -> Any:
    """Return the JSON value with its texts filled. Raises :class:`KeyError` for a name without a value."""
    if isinstance(value, str):
        whole = _NAME.fullmatch(value)
        return values[whole[1]] if whole else _filled(value, values)
    if isinstance(value, list):
        return [fill(item, values) for item in value]
    if isinstance(value, dict):
        return {key: fill(child, values) for key, child in value.items()}
    return value


def _filled(text: str, values: Mapping[str, str | int]) -> str:
    def part(match: re.Match[str]) -> str:  # one pass: what a value contains is never taken for a template
        if match[2] is not None:
            return str(values[match[2]])
        return base64.b64encode(_filled(match[1], values).encode()).decode()

    return _PART.sub(part, text)


GIVEN: Final = ("user", "password")
"""Names that templates may use in every mode: the two knobs."""
_OWN_MEMBERS: Final = ("jsonrpc", "id", "method", "params")
_OWN_HEADERS: Final = ("host", "content-length", "content-type", "transfer-encoding", "connection")
_OF_CREDENTIALS: Final = ("authorization", "proxy-authorization", "cookie")
_OF_HOPS: Final = ("keep-alive", "te", "trailer", "upgrade", "expect", "accept-encoding", "traceparent", "tracestate")


def is_header_value(text: str) -> bool:
    """Return whether a text is printable ASCII without surrounding spaces, as the values of headers are."""
    return re.fullmatch(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?", text) is not None


def _outside(taken: Sequence[str], fault: str) -> AfterValidator:
    """Return a validator that raises ``fault`` for a name that is one of ``taken``, in whatever case."""
    return checked(lambda name: name.lower() not in taken, fault)


HeaderName = Annotated[
    str,
    checked(re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+").fullmatch, "must be an HTTP header name"),
    _outside(_OWN_HEADERS, "is set by the gateway itself"),
]
PlainHeaderName = Annotated[
    HeaderName,
    _outside(_OF_CREDENTIALS, "is a credential: set it under backend.credentials"),
    _outside(_OF_HOPS, "is set by the gateway itself"),
]
"""Name of a header which is no credential."""
_ValueName = Annotated[
    str,
    checked(
        re.compile(NAME_PATTERN).fullmatch,
        "must have at most 32 lower-case letters, digits and underscores, and begin with a letter",
    ),
    _outside(GIVEN, "is the name of a knob beside it: choose another"),
]
_Member = Annotated[str, checked(lambda name: name not in _OWN_MEMBERS, "is set by the gateway itself")]
TextValue = Annotated[
    SecretStr,
    checked(lambda one: is_header_value(one.get_secret_value()), "must be printable ASCII without surrounding spaces"),
]


class Send(Document):
    """Places of the credential in each request. In the texts, {user} and {password} are the knobs beside it, and
    with mode: login {name} is a value of login.find; {base64(…)} encodes what stands in it."""

    headers: dict[HeaderName, TextValue] = knob(dict, "Headers, e.g. {X-Api-Key: '${KEY}', X-Tenant: crm}.")
    query: dict[str, TextValue] = knob(dict, "Parameters of the URL's query, e.g. {api_key: '${KEY}'}.")
    message: dict[_Member, Secret[JsonValue]] = knob(
        dict, "Further members of the JSON-RPC message, e.g. {auth: '{token}'} for Zabbix before 7.2."
    )
    params: tuple[Secret[JsonValue], ...] = knob(
        (), "Values before the positional params of every call. The listing is asked without them."
    )
    arguments: dict[str, Secret[JsonValue]] = knob(
        dict,
        "Named params of every call, which callers do not see and cannot set. A list stands before the list that the "
        "caller gives, e.g. {args: [mydb, '{uid}', '{password}']} for Odoo. The listing is asked without them.",
    )

    def revealed(self) -> dict[str, Any]:
        """Return the members by name, with the secrets in them as they are."""
        return {
            "headers": {name: value.get_secret_value() for name, value in self.headers.items()},
            "query": {name: value.get_secret_value() for name, value in self.query.items()},
            "message": {name: value.get_secret_value() for name, value in self.message.items()},
            "params": [value.get_secret_value() for value in self.params],
            "arguments": {name: value.get_secret_value() for name, value in self.arguments.items()},
        }


PRINCIPAL_NAME: Final = re.compile(r"\{(sub|iss|client|scopes|claims\.[^{}\s]{1,200})\}")
"""A name in the value of a caller header."""


def caller_template(text: str) -> str:
    """Return the value of a caller header if it names what is known of the caller. Raises :class:`ValueError`."""
    if not PRINCIPAL_NAME.search(text):
        raise ValueError("names nothing of the caller, such as {sub} or {claims.email}; a fixed one goes into headers")
    if "{" in (rest := PRINCIPAL_NAME.sub("", text)) or "}" in rest:
        raise ValueError("has a name in braces that is not {sub}, {iss}, {client}, {scopes} or {claims.NAME}")
    if not is_header_value(PRINCIPAL_NAME.sub("x", text)):
        raise ValueError("must be printable ASCII without surrounding spaces")
    return text


class CallerHeader(Document):
    """One header that tells the service who calls. A text alone is its value."""

    value: Annotated[str, AfterValidator(caller_template)] = Field(
        description="Value, with {sub}, {iss}, {client}, {scopes} or {claims.NAME}; dots lead into nested claims."
    )
    required: bool = knob(False, "Refuse a call of a caller without these. Else the header is absent then.")

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, given: Any) -> Any:
        return {"value": given} if isinstance(given, str) else given


class Login(Document):
    """A call that logs in, and what its answer gives. It is sent with those headers and query parameters of send that
    need nothing of its answer."""

    method: str = Field(description="JSON-RPC method of the call, e.g. auth.login.", min_length=1)
    params: SecretParams | None = knob(
        None, "Its params, e.g. ['{user}', '{password}']. {user} and {password} are the knobs beside login."
    )
    endpoint: str | None = knob(
        None, "Path of the call on the backend's origin, where it is not backend.url's.", pattern="^/([^/].*)?$"
    )
    find: dict[_ValueName, JsonPath] = Field(
        description="Names for the values in its answer, each with a JSONPath (RFC 9535), for send to use. $.result is "
        "the result, $.message all of the JSON, $.cookies has the cookies by name, $.headers the headers by lower-case "
        "name: {session: $.result[1]}, {sid: $.cookies._session_id}. A login without one of them is refused.",
        min_length=1,
    )
    expired: Annotated[
        tuple[int | str, ...], checked(lambda all_: "" not in all_, "an empty text is in every error")
    ] = knob(
        (401,),
        "Answers to a call which mean that the login has expired: HTTP statuses, codes of JSON-RPC errors, and texts "
        "in an error's message or data. The gateway then logs in again, and sends the call once more.",
    )

    @field_validator("params")
    @classmethod
    def _check_params(cls, params: Secret[JsonValue] | None) -> Secret[JsonValue] | None:
        if unknown := sorted({*names_in(params)} - {*GIVEN}):
            raise ValueError(f"{{{unknown[0]}}} is not {{user}} or {{password}}")
        return params
