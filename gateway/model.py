"""The nouns of the gateway, as immutable values.

A *backend* lists *methods* in some *dialect*; we offer *tools*. A ``Method`` is theirs, as its listing describes
it; a ``Tool`` is ours, and knows no MCP revision: an era projects it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, NoReturn, TypeAlias

from gateway.errors import ToolFault

JsonObject: TypeAlias = Mapping[str, Any]
Schema: TypeAlias = Mapping[str, Any] | bool


class Structure(StrEnum):
    """How a method takes its ``params``, in OpenRPC's words; ``unknown`` is a listing that does not say."""

    BY_NAME = "by-name"
    BY_POSITION = "by-position"
    EITHER = "either"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a method, in the order in which the listing has it."""

    name: str
    schema: Schema = True
    required: bool = False
    description: str = ""


@dataclass(frozen=True, slots=True)
class Method:
    """A backend method as its listing describes it.

    ``parameters`` is None where the listing does not tell, which is not the same as none. A listing that has the
    whole arguments object as one schema gives it as ``input_schema``; ``parameters`` is then unused.
    ``root`` is the document that ``$ref``\\ s of the schemas point into. ``endpoint`` is a path on the backend's own
    origin where this method is served, if not at the usual one. ``meta`` is published in ``_meta``.
    """

    name: str
    dialect: str
    title: str = ""
    description: str = ""
    parameters: tuple[Parameter, ...] | None = ()
    input_schema: JsonObject | None = None
    structure: Structure = Structure.UNKNOWN
    result: Schema | None = None
    notification: bool = False
    root: JsonObject = field(default_factory=dict, repr=False)
    endpoint: str | None = None
    scopes: frozenset[str] = frozenset()
    annotations: JsonObject = field(default_factory=dict)
    meta: JsonObject = field(default_factory=dict)
    deprecated: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """What a backend answered to one question about its listing.

    ``found`` says that ``value`` holds JSON (a result, or a document). Otherwise ``summary`` says what came instead,
    ``denied`` that credentials are missing (``unauthorized``: what was shown does not count), ``unreachable`` that
    asking on is of no use.
    """

    summary: str
    value: Any = None
    found: bool = False
    denied: bool = False
    unauthorized: bool = False
    unreachable: bool = False


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A method that is left out: why, and the override that would free it. Never fatal to the others."""

    name: str
    reason: str
    remedy: str
    pointer: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """What a dialect made of a backend's answer.

    ``title`` and ``version`` are the service's own, where the listing has them; ``notes`` are remarks for the
    operator.
    """

    dialect: str
    methods: tuple[Method, ...]
    quarantined: tuple[Quarantined, ...] = ()
    title: str = ""
    version: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Binding:
    """How arguments become a backend call.

    ``order`` names the parameters by position; ``spread`` is the one argument that holds all positional params of
    a method whose parameters are unknown. ``defaults`` fill gaps between positions. ``declares_parameters`` is
    whether ``params`` is sent at all when there are no arguments.
    """

    method: str
    structure: Structure
    order: tuple[str, ...] = ()
    spread: str | None = None
    defaults: JsonObject = field(default_factory=dict)
    declares_parameters: bool = True
    notification: bool = False
    endpoint: str | None = None
    timeout: float | None = None


@dataclass(frozen=True, slots=True)
class HeaderParameter:
    """An argument that clients mirror into an HTTP header: the header, the way to the value, its JSON type."""

    header: str
    path: tuple[str, ...]
    kind: str


Demand: TypeAlias = tuple[bool, frozenset[str]]
"""What a tool takes of its caller: whether it is open to callers without a token, and scopes."""


@dataclass(frozen=True)
class Tool:
    """What we offer. ``input_schema`` and ``output_schema`` are self-contained JSON Schema 2020-12.

    ``requires`` are client capabilities without which the tool cannot be called. ``blocks`` says that its results are
    MCP content already, ``rounds`` that it may ask the client for more input, ``confirm`` that a person has to agree
    to each call.
    """

    name: str
    method: str
    description: str
    input_schema: JsonObject
    binding: Binding
    title: str = ""
    output_schema: Schema | None = None
    annotations: JsonObject = field(default_factory=dict)
    meta: JsonObject = field(default_factory=dict)
    scopes: frozenset[str] = frozenset()
    auth_level: str = ""
    headers: tuple[HeaderParameter, ...] = ()
    requires: JsonObject = field(default_factory=dict)
    blocks: bool = False
    rounds: bool = False
    confirm: bool = False
    digest: str = ""

    @property
    def demand(self) -> Demand:
        """The backend's level counts before its scopes (jsonrpc_mcp); a level that it does not give opens nothing."""
        is_open = self.auth_level in ("none", "optional")
        return is_open, frozenset() if is_open else self.scopes


@dataclass(frozen=True)
class Catalog:
    """The tools at a moment, sorted by name.

    ``created`` is wall-clock seconds; ``digest`` is equal for catalogs that offer the same tools.
    """

    tools: tuple[Tool, ...]
    digest: str
    dialect: str
    created: float
    quarantined: tuple[Quarantined, ...] = ()
    notes: tuple[str, ...] = ()

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(tool.name for tool in self.tools)

    @cached_property
    def demands(self) -> frozenset[Demand]:
        """The different demands of its tools."""
        return frozenset(tool.demand for tool in self.tools)

    @cached_property
    def _by_name(self) -> dict[str, Tool]:
        by_method: dict[str, list[Tool]] = {}
        for tool in self.tools:
            by_method.setdefault(tool.method, []).append(tool)
        found = {method: tools[0] for method, tools in by_method.items() if len(tools) == 1}
        return found | {tool.name: tool for tool in self.tools}

    def find(self, name: str) -> Tool | None:
        """The tool of this name, or the one tool of this backend method. A tool's own name comes first."""
        return self._by_name.get(name)


@dataclass(frozen=True, slots=True)
class View:
    """Whose catalog: the shared one, or one caller's by (issuer, subject, scopes)."""

    issuer: str = ""
    subject: str = ""
    scopes: frozenset[str] = frozenset()

    @property
    def shared(self) -> bool:
        return not self.subject


SHARED: Final = View()


class AccessToken:
    """A caller's token behind a mask: neither ``repr`` nor ``str`` shows it, and it cannot be pickled by accident."""

    __slots__ = ("_raw",)

    def __init__(self, raw: str) -> None:
        self._raw = raw

    def __repr__(self) -> str:
        return "<AccessToken>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AccessToken) and other._raw == self._raw

    def __hash__(self) -> int:
        return hash(self._raw)

    def __reduce__(self) -> NoReturn:
        raise TypeError("an access token stays in this process")

    def reveal(self) -> str:
        """The token itself: for whoever verifies or shows it, nobody else."""
        return self._raw


@dataclass(frozen=True, slots=True)
class Principal:
    """A verified caller. ``(issuer, subject)`` is the identity, never the subject alone.

    ``scopes`` are all that the token grants, those that others imply included; ``expires`` is wall-clock seconds.
    """

    issuer: str
    subject: str
    client: str
    scopes: frozenset[str]
    expires: float
    token: AccessToken


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: the address that limits count by, the languages the caller prefers, and who it is.

    ``principal`` is None for a caller without a token; ``view`` is whose catalog the caller sees.
    """

    address: str = ""
    language: str | None = None
    view: View = SHARED
    principal: Principal | None = None

    @property
    def identity(self) -> tuple[str, str]:
        """What a session or a consent is bound to, across tokens."""
        return (self.principal.issuer, self.principal.subject) if self.principal is not None else ("", "")

    @property
    def counted_as(self) -> str:
        """Whom limits count: who the caller is, else where it calls from."""
        return self.address if self.principal is None else "\n".join(self.identity)


ANONYMOUS: Final = Caller()


class Nothing:
    """The value of a call that has no result, by declaration."""

    def __repr__(self) -> str:
        return "NOTHING"


NOTHING: Final = Nothing()


@dataclass(frozen=True, slots=True)
class CallExtras:
    """What a 2026-07-28 client sends along with a call.

    ``responses`` answer the questions of an earlier round and ``state`` is what was handed out with them;
    ``capabilities`` are the client's; ``trace`` are W3C trace context headers. A surface that cannot pass a question on
    to a person has no extras.
    """

    responses: JsonObject = field(default_factory=dict)
    state: str | None = None
    capabilities: JsonObject = field(default_factory=dict)
    trace: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ask:
    """Questions to the client before a call can go on: ``inputRequests``, and the state to bring back."""

    requests: JsonObject
    state: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call came to: a value (JSON, or :data:`NOTHING`), a fault, or questions to the client."""

    tool: Tool
    value: Any = None
    fault: ToolFault | None = None
    ask: Ask | None = None
