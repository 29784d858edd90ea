"""Define the nouns of the gateway, as immutable values.

A *backend* lists *methods* in some *dialect*; the gateway offers *tools*. A ``Method`` is what the backend's listing
describes. A ``Tool`` is what the gateway offers; it knows no MCP revision, the code of each era presents it.
"""

from gateway.model.callers import (
    ANONYMOUS,
    NO_RESULT,
    SHARED,
    AccessToken,
    Caller,
    CallExtras,
    InputRequest,
    Outcome,
    Principal,
    View,
)
from gateway.model.listed import (
    NOT_ASKED,
    EndpointFault,
    HttpFacts,
    JsonObject,
    Listing,
    MessageForm,
    Method,
    Parameter,
    QuarantinedMethod,
    Schema,
    ServiceInfo,
    SourceAnswer,
    Structure,
    Version,
)
from gateway.model.tools import (
    CLOSED,
    HINTS,
    Binding,
    Catalog,
    Demand,
    HeaderParameter,
    NameStyle,
    ResultFit,
    Tool,
    all_annotations,
)
