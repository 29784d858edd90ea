"""Read W3C trace context and baggage as headers for the service. What is malformed is dropped.

The rest is passed on as it came, also a context of a later version. :mod:`gateway.telemetry.tracing` adds the gateway's
own spans, if the operator wants traces.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias, TypeGuard

from msgspec import Struct, field
from multidict import MultiMapping, istr

from gateway.text import mask_keys

Trace: TypeAlias = Mapping[str, str]


class Span(Struct, eq=False):
    """Hold the ids of a sampled request's span. ``parent`` is the ``traceparent`` above it, "" for a root, ``link`` one
    beside it. ``sent`` has for each exchange with the service, by its number, the id of its span, the service's method,
    and the URL. ``content`` are attributes with excerpts of arguments and result."""

    trace_id: int
    span_id: int
    parent: str = ""
    link: str = ""
    sent: dict[int, tuple[int, str, str]] = field(default_factory=dict)
    content: dict[str, str] = field(default_factory=dict)


PARENT: Final[str] = istr("traceparent")
# W3C Trace Context §3.2.2: version 00 ends with the flags. A later one may go on behind a hyphen (§4, "Versioning").
_PARENT_FORM: Final = re.compile(
    r"(?!ff|00.{54})[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-[!-~]{0,200})?"
)
# §3.3: members, of which some may be empty.
_STATE_MEMBER: Final = re.compile(r"[a-z0-9][a-z0-9_*/@-]{0,255}=[ -+\--<>-~]{0,255}[!-+\--<>-~]")
_MOST_MEMBERS: Final = 32
_MAX_STATE: Final = 512
# W3C Baggage §3.3.1: a "key", a token, and its "value", then properties. Nothing is tried twice, whatever comes.
_KEY: Final = r"[ \t]*+[A-Za-z0-9!#$%&'*+.^_`|~-]++[ \t]*+"
_VALUE: Final = r"=[ \t]*+[!#-+\--:<-\[\]-~]*+[ \t]*+"
_BAGGAGE_MEMBER: Final = re.compile(f"{_KEY}{_VALUE}(?:;{_KEY}(?:{_VALUE})?+)*+")
_MAX_BAGGAGE: Final = 4096


def trace_of_http(headers: MultiMapping[str]) -> Trace:
    """Return the trace context in headers that have a :data:`PARENT`. Two parents are none (§3.2), but a state may be
    divided (§3.3.1)."""
    parents = headers.getall(PARENT)
    return _trace(parents[0], ",".join(headers.getall("tracestate", ()))) if len(parents) == 1 else {}


def trace_of_meta(meta: Mapping[str, Any], ambient: Trace | None) -> Trace:
    """Return the trace context in a ``_meta``, or the ``ambient`` one where it has none, and the members of its baggage
    that are well-formed."""
    trace = _trace(meta.get("traceparent"), meta.get("tracestate")) or ambient or {}
    baggage = meta.get("baggage")
    if not isinstance(baggage, str) or len(baggage) > _MAX_BAGGAGE:
        return trace
    members = mask_keys(",".join(filter(_BAGGAGE_MEMBER.fullmatch, baggage.split(","))).strip(" \t"))
    return {**trace, "baggage": members} if members else trace


def trace_id(trace: Trace) -> str:
    """Return the id of a trace, "" without one."""
    return trace.get("traceparent", "")[3:35]


def is_sampled(trace: Trace) -> bool:
    """Return whether the caller records the trace: the flag "sampled" (W3C Trace Context §3.2.2.5.1)."""
    return bool(int(trace["traceparent"][53:55], 16) & 1) if "traceparent" in trace else False


def _trace(parent: object, state: object) -> Trace:
    """Return the headers. A state has no meaning without its parent (§3.3)."""
    if not (isinstance(parent, str) and _PARENT_FORM.fullmatch(parent)):
        return {}
    return {"traceparent": parent, "tracestate": mask_keys(state)} if _is_state(state) else {"traceparent": parent}


def _is_state(state: object) -> TypeGuard[str]:
    if not isinstance(state, str) or len(state) > _MAX_STATE:
        return False
    members = [member.strip(" \t") for member in state.split(",")]
    return len(members) <= _MOST_MEMBERS and any(members) and all(map(_STATE_MEMBER.fullmatch, filter(None, members)))
