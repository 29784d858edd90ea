"""Define what a backend lists: its methods, as the listing describes them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal, TypeAlias

JsonObject: TypeAlias = Mapping[str, Any]
Schema: TypeAlias = Mapping[str, Any] | bool


class Structure(StrEnum):
    """Name how a method takes its ``params``, in OpenRPC's words. ``by-name-in-list`` is not OpenRPC's: one object as
    the only element of a list. ``unknown`` is where the listing does not say."""

    BY_NAME = "by-name"
    BY_POSITION = "by-position"
    BY_NAME_IN_LIST = "by-name-in-list"
    EITHER = "either"
    UNKNOWN = "unknown"


class Version(StrEnum):
    """Name the versions of JSON-RPC."""

    ONE = "1.0"
    TWO = "2.0"


@dataclass(frozen=True, slots=True)
class MessageForm:
    """Hold the form of messages that a backend understands: the version of JSON-RPC, whether ``params`` is always
    required, and whether ids have to be integers. JSON-RPC 1.0 always has ``params``, as a list. On a stream also how
    messages are told apart, and whether answers have no ids and come in the order of the calls (None: not known).
    ``alone``: each message has a connection of its own."""

    version: Version = Version.TWO
    always_params: bool = False
    integer_ids: bool = False
    framing: str = "auto"
    in_order: bool | None = None
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Parameter:
    """Hold one parameter of a method. Parameters are in the listing's order."""

    name: str
    schema: Schema = True
    required: bool = False
    description: str = ""


@dataclass(frozen=True, slots=True)
class Method:
    """Hold a backend method as its listing describes it.

    ``parameters`` is None where the listing does not say; () is a method without parameters. Without ``is_complete``
    they are those that a description mentions: there may be others, and their order is unknown. ``input_schema`` is the
    schema of the whole arguments object, for listings that give one; ``parameters`` is then unused. It is False where
    the entry lacks the schema that its dialect requires: then only the operator can say what the arguments are.
    ``root`` is the document that each ``$ref`` in the schemas points into. ``endpoint`` is a path on the backend's
    origin, for a method that has its own, and ``wire_name`` the name to send, where it is not ``name``. ``meta`` is
    published in ``_meta``.
    """

    name: str
    title: str = ""
    description: str = ""
    parameters: tuple[Parameter, ...] | None = ()
    is_complete: bool = True
    input_schema: Schema | None = None
    structure: Structure = Structure.UNKNOWN
    result: Schema | None = None
    notification: bool = False
    root: JsonObject = field(default_factory=dict, repr=False)
    endpoint: str | None = None
    wire_name: str = ""
    scopes: frozenset[str] = frozenset()
    annotations: JsonObject = field(default_factory=dict)
    meta: JsonObject = field(default_factory=dict)
    deprecated: bool = False


@dataclass(frozen=True, slots=True)
class HttpFacts:
    """Hold what an HTTP answer tells about the service behind an address. ``start`` is the beginning of its body."""

    status: int
    content_type: str
    headers: Mapping[str, str] = field(repr=False)
    start: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class SourceAnswer:
    """Hold what a backend answered to one question about its listing.

    With ``has_value``, ``value`` is JSON (a result, or a document). Otherwise ``summary`` says what came instead.
    ``denied`` is a refusal for lack of rights, and ``unauthorized`` one with HTTP 401, where the credential itself is
    refused; with ``refused`` one was sent, to the JSON-RPC endpoint itself. ``unreachable`` means that further
    questions are useless. ``away`` means that nobody answered for the service: it may be back in a moment; with
    ``late``, because the answer did not come in time, and with ``ended``, because the connection ended before it.
    ``retry_after`` are the seconds after which a limited service may be asked again.
    ``error`` is the message of a JSON-RPC error, "" where there is none. ``http`` is the HTTP answer, if there was one.
    """

    summary: str
    value: Any = None
    has_value: bool = False
    denied: bool = False
    unauthorized: bool = False
    refused: bool = False
    unreachable: bool = False
    away: bool = False
    late: bool = False
    ended: bool = False
    error: str = ""
    retry_after: int | None = None
    http: HttpFacts | None = field(default=None, compare=False)

    @property
    def is_response(self) -> bool:
        """Return whether a call got a response of JSON-RPC."""
        return self.has_value or self.error != ""


NOT_ASKED: Final = SourceAnswer("not asked")
"""The answer to a question that this service's transport cannot carry."""


@dataclass(frozen=True, slots=True)
class QuarantinedMethod:
    """Hold a method that is left out of the catalog, the ``reason``, and the ``remedy``. The other methods are offered.
    ``pointer`` is the JSON pointer of the fault, ``argument`` has it. ``held_by_pin`` is a method that is valid but
    differs from its pin; ``changes`` says in which values. ``held_until_described`` is one whose questions were not
    answered yet."""

    name: str
    reason: str
    remedy: str
    pointer: str = ""
    held_by_pin: bool = False
    changes: tuple[str, ...] = ()
    argument: str | None = None
    held_until_described: bool = False


@dataclass(frozen=True, slots=True)
class ServiceInfo:
    """Hold what a listing says of the service itself, "" where it says nothing. ``website`` is a URL. ``missing`` are
    the services of a group that have no listing now."""

    title: str = ""
    version: str = ""
    description: str = ""
    website: str = ""
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EndpointFault:
    """Hold that calls may not work at ``path``, and what it ``answers``: it is ``missing`` where no JSON-RPC endpoint
    is, it has ``refused`` the credential, or it is ``odd``. ``listing`` is where the listing is."""

    path: str
    answers: str
    kind: Literal["missing", "refused", "odd"]
    listing: str

    def __str__(self) -> str:
        if self.kind == "odd":
            return f"whether {self.path} is a JSON-RPC endpoint is not known: {self.answers}"
        missing = self.kind == "missing"
        what = f"there is no JSON-RPC endpoint at {self.path}" if missing else f"{self.path} refuses access to calls"
        return f"The listing is at {self.listing}, but {what}: {self.answers}"


@dataclass(frozen=True, slots=True)
class Listing:
    """Hold what a dialect made of a backend's answers. ``notes`` are remarks for the operator. ``form`` is the form of
    messages that obtained the listing; its methods are called in the same form. With ``by_position``, methods whose
    structure is unknown are called by position, else by name.

    ``endpoints`` says where its calls may not work.

    ``digest`` is the digest of the answers, "" where it is unknown. Equal answers make equal listings. ``size`` is the
    bytes of the answers.

    ``partial`` says how much of the listing came, "" where all of it did: the rest is asked again, after
    ``retry_after`` seconds where the service names a time.
    """

    dialect: str
    methods: tuple[Method, ...]
    quarantined: tuple[QuarantinedMethod, ...] = ()
    service: ServiceInfo = field(default_factory=ServiceInfo)
    notes: tuple[str, ...] = ()
    form: MessageForm = MessageForm()
    by_position: bool = False
    endpoints: tuple[EndpointFault, ...] = ()
    digest: str = ""
    size: int = 0
    partial: str = ""
    retry_after: int = 0
