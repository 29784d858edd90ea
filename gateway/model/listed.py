"""What a backend lists: its methods, in the words of its listing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

JsonObject: TypeAlias = Mapping[str, Any]
Schema: TypeAlias = Mapping[str, Any] | bool


class Structure(StrEnum):
    """How a method takes its ``params``, in OpenRPC's words; ``unknown`` is a listing that does not say. By name in a
    list is one object as the only element, which OpenRPC does not know."""

    BY_NAME = "by-name"
    BY_POSITION = "by-position"
    BY_NAME_IN_LIST = "by-name-in-list"
    EITHER = "either"
    UNKNOWN = "unknown"


class Version(StrEnum):
    """Versions of JSON-RPC."""

    ONE = "1.0"
    TWO = "2.0"


@dataclass(frozen=True, slots=True)
class MessageForm:
    """The form of messages that a backend understands: which JSON-RPC, and whether ``params`` have to be there always.
    JSON-RPC 1.0 has them always, as a list."""

    version: Version = Version.TWO
    always_params: bool = False


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
    whole arguments object as one schema gives it as ``input_schema``; ``parameters`` is then unused. It is False where
    the entry lacks the schema that its dialect demands: only the operator can then say what the arguments are.
    ``root`` is the document that ``$ref``\\ s of the schemas point into. ``endpoint`` is a path on the backend's own
    origin where this method is served, if not at the usual one, and ``wire_name`` what it is called there, if not by
    ``name``. ``meta`` is published in ``_meta``.
    """

    name: str
    dialect: str
    title: str = ""
    description: str = ""
    parameters: tuple[Parameter, ...] | None = ()
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
class SourceAnswer:
    """What a backend answered to one question about its listing.

    ``has_value`` says that ``value`` holds JSON (a result, or a document). Otherwise ``summary`` says what came
    instead, ``denied`` that credentials are missing (``unauthorized``: what was shown does not count), ``unreachable``
    that asking on is of no use.
    """

    summary: str
    value: Any = None
    has_value: bool = False
    denied: bool = False
    unauthorized: bool = False
    unreachable: bool = False


@dataclass(frozen=True, slots=True)
class QuarantinedMethod:
    """A method that is left out: why, and what would free it. Never fatal to the others. ``held_by_pin`` is one that
    nothing is wrong with, but that differs from its pin."""

    name: str
    reason: str
    remedy: str
    pointer: str = ""
    held_by_pin: bool = False


@dataclass(frozen=True, slots=True)
class ServiceInfo:
    """What a listing says of the service itself; "" is what it does not say. ``website`` is a URL."""

    title: str = ""
    version: str = ""
    description: str = ""
    website: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """What a dialect made of a backend's answers. ``notes`` are remarks for the operator. ``form`` is that of the
    messages by which it was had, and by which its methods are called. ``by_position`` is to be assumed of
    methods whose structure is unknown, rather than by name.

    ``digest`` is of the answers, empty where it is not known: equal ones make equal listings. ``size`` is their bytes.
    """

    dialect: str
    methods: tuple[Method, ...]
    quarantined: tuple[QuarantinedMethod, ...] = ()
    service: ServiceInfo = field(default_factory=ServiceInfo)
    notes: tuple[str, ...] = ()
    form: MessageForm = MessageForm()
    by_position: bool = False
    digest: str = ""
    size: int = 0
