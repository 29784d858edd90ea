"""The nouns of the gateway, as immutable values.

A *backend* lists *methods* in some *dialect*; we offer *tools*. A ``Method`` is theirs, as its listing describes
it; a ``Tool`` is ours, and knows no MCP revision: an era projects it.
"""

from gateway.model.callers import ANONYMOUS, SHARED, AccessToken, Caller, Principal, View
from gateway.model.calls import NOTHING, Ask, CallExtras, Nothing, Outcome
from gateway.model.listed import (
    Form,
    JsonObject,
    Listing,
    Method,
    Parameter,
    Quarantined,
    Schema,
    Seen,
    ServiceInfo,
    Structure,
    Version,
)
from gateway.model.tools import CLOSED, HINTS, Binding, Catalog, Demand, HeaderParameter, Naming, Tool, all_annotations

__all__ = [
    "ANONYMOUS",
    "CLOSED",
    "HINTS",
    "NOTHING",
    "SHARED",
    "AccessToken",
    "Ask",
    "Binding",
    "CallExtras",
    "Caller",
    "Catalog",
    "Demand",
    "Form",
    "HeaderParameter",
    "JsonObject",
    "Listing",
    "Method",
    "Naming",
    "Nothing",
    "Outcome",
    "Parameter",
    "Principal",
    "Quarantined",
    "Schema",
    "Seen",
    "ServiceInfo",
    "Structure",
    "Tool",
    "Version",
    "View",
    "all_annotations",
]
