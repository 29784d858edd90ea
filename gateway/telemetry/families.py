"""Name every family of metrics once: what ``/metrics`` exports, and what docs/metrics.md is made of."""

from typing import Final, Literal, NamedTuple, TypeAlias

from gateway.telemetry import cells

Kind: TypeAlias = Literal["counter", "gauge", "histogram"]
Merge: TypeAlias = Literal["sum", "max", "min"]


class Family(NamedTuple):
    """Hold the name of a family, what it counts and its labels. ``merge`` says what several workers have together. A
    gauge whose ``labels`` begin with ``service`` has a line for each service, one without labels a single one."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str
    merge: Merge = "sum"


_S: Final = ("service",)
_OPERATION: Final = (
    "service", "surface", "mcp_method_name", "gen_ai_operation_name", "error_type", "rpc_response_status_code",
    "mcp_protocol_version", "network_transport", "network_protocol_name",
)  # fmt: skip
_EXCHANGE: Final = ("service", "rpc_system_name", "error_type", "rpc_response_status_code")

FAMILIES: Final = (
    Family(cells.OPERATION, "histogram", _OPERATION,
           "Duration of each JSON-RPC message, from the head of its request to its response; of a stream, to its end."),
    Family("mcp_gateway_requests_total", "counter", ("service", "surface", "outcome"),
           "Lines of requests in the log: one for each HTTP request, and one for each message of a batch."),
    Family(cells.TOOL, "counter", ("service", "gen_ai_tool_name", "outcome"),
           "Calls of a tool that were not refused and were answered."),
    Family("mcp_gateway_tool_call_seconds_total", "counter", ("service", "gen_ai_tool_name"),
           "Duration of these calls together."),
    Family(cells.EXCHANGE, "histogram", _EXCHANGE,
           "Duration of each exchange of a call with the service, without the wait for a turn."),
    Family("mcp_gateway_catalog_tools", "gauge", _S, "Tools in the catalog that callers share.", "max"),
    Family("mcp_gateway_catalog_quarantined", "gauge", _S, "Methods that are left out of it as unsound.", "max"),
    Family("mcp_gateway_catalog_age_seconds", "gauge", _S, "Time since the shared listing was fetched.", "max"),
    Family("mcp_gateway_catalog_last_refresh_timestamp_seconds", "gauge", _S,
           "Unix time at which the shared listing was fetched.", "min"),
    Family("mcp_gateway_catalog_refreshes_total", "counter", ("service", "result"),
           "Refreshes of listings, of all views: ok, failed."),
    Family("mcp_gateway_catalog_pin_drift", "gauge", _S, "Tools that are held back because they differ from their "
           "pins, or have none.", "max"),
    Family("mcp_gateway_service_available", "gauge", _S,
           "0 if there is no listing to show, or its last refresh failed; else 1.", "min"),
    Family(cells.LIMIT, "counter", ("service", "limit"), "Requests and calls that a limit of callers refused."),
    Family("mcp_gateway_queue_length", "gauge", _S, "Exchanges that wait for a turn."),
    Family(cells.QUEUE_WAIT, "histogram", _S, "Wait for a turn, of the calls that had to wait."),
    Family("mcp_gateway_slots_in_use", "gauge", _S, "Exchanges with the service under way."),
    Family("mcp_gateway_slots", "gauge", _S, "Exchanges that may be under way: backend.connections."),
    Family("mcp_gateway_breaker_open", "gauge", _S, "Circuits that are open: of the service, and of single tools."),
    Family("mcp_gateway_breaker_openings_total", "counter", _S, "Times that a circuit opened."),
    Family(cells.MENDED, "counter", ("service", "word"),
           "Answers to calls that were no sound JSON and were mended, by what was mended."),
    Family(cells.RESENDS, "counter", _S, "Calls that were sent to the service once more."),
    Family("mcp_gateway_backend_messages_dropped_total", "counter", _S,
           "Messages on a WebSocket or a socket that belong to no call: notifications, late answers."),
    Family("mcp_gateway_backend_messages_unowned_total", "counter", _S,
           "Those of them without an id that could be the answer to more than one call, or to one that was given up."),
    Family("mcp_gateway_streams_open", "gauge", _S, "Streams to clients."),
    Family("mcp_gateway_sessions_open", "gauge", _S,
           "Sessions of the older era with an open stream of notifications; others leave no trace here."),
    Family(cells.TOKENS, "counter", ("service", "reason"), "Requests whose token or proof was refused."),
    Family("mcp_gateway_issuer_keys_age_seconds", "gauge", ("service", "issuer"),
           "Time since an issuer's keys were fetched; no line if they never were.", "max"),
    Family("mcp_gateway_issuer_keys_max_age_seconds", "gauge", ("service", "issuer"),
           "Age from which keys are used no more.", "max"),
    Family(cells.INTROSPECTION, "histogram", _S, "Duration of each token introspection (RFC 7662)."),
    Family("mcp_gateway_certificate_expiry_seconds", "gauge", ("service", "file"),
           "Unix time at which a certificate ends: backend.tls.cert_file of a service, server.tls.cert_file of none.",
           "min"),
    Family("mcp_gateway_store_available", "gauge", (), "0 while a shared store is away; else 1.", "min"),
    Family("mcp_gateway_store_commands_total", "counter", (), "Commands that were sent to a shared store."),
    Family("mcp_gateway_store_permits_leased", "gauge", (), "Permits that were taken from a shared store to be used."),
    Family("mcp_gateway_workers", "gauge", (), "Processes that serve."),
    Family("mcp_gateway_workers_configured", "gauge", (), "server.workers."),
    Family("mcp_gateway_workers_replaced_total", "counter", (), "Workers that ended and were replaced."),
    Family("mcp_gateway_connections_open", "gauge", (), "Connections of clients."),
    Family("mcp_gateway_connections_limit", "gauge", (), "Connections that clients may have."),
    Family("mcp_gateway_connections_refused_total", "counter", (), "Connections that were refused."),
    Family("mcp_gateway_response_bytes_held", "gauge", (), "Bytes of requests and responses in memory."),
    Family("mcp_gateway_response_bytes_limit", "gauge", (), "Bytes that may be: server.max_buffered."),
    Family("mcp_gateway_request_bytes_read_ahead", "gauge", (), "Bytes that clients sent ahead of responses."),
    Family("mcp_gateway_event_loop_lag_seconds", "gauge", (),
           "Longest delay of a timer in the last 15 seconds: the event loop was held for so long.", "max"),
    Family("mcp_gateway_log_lines_lost_total", "counter", (), "Lines of the log that could not be written."),
    Family("mcp_gateway_audit_lines_lost_total", "counter", (), "Lines of the audit that could not be written."),
    Family("mcp_gateway_spans_lost_total", "counter", (), "Spans of traces that could not be sent to the collector."),
    Family("mcp_gateway_config_reloads_total", "counter", ("result",), "Reloads of the configuration: ok, refused."),
    Family("mcp_gateway_config_last_reload_successful", "gauge", (), "0 if the last reload was refused; else 1.",
           "min"),
    Family("mcp_gateway_config_last_reload_timestamp_seconds", "gauge", (),
           "Unix time of the start, or of the last reload that was not refused.", "min"),
    Family("mcp_gateway_config_info", "gauge", ("hash",), "1; the label is a digest of the configuration in force.",
           "max"),
    Family("mcp_gateway_config_files_missing", "gauge", (), "Files of the configuration that are gone.", "max"),
    Family("mcp_gateway_build_info", "gauge", ("version", "python_version"), "1; the labels say what runs.", "max"),
    Family("mcp_gateway_start_time_seconds", "gauge", (),
           "Unix time at which the process with the admin port started.", "min"),
)  # fmt: skip
BY_NAME: Final = {family.name: family for family in FAMILIES}
