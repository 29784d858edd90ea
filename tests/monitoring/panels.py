"""The panels of the dashboard in deploy/monitoring. Its rows are questions of an operator."""

from __future__ import annotations

from typing import Final

from tests.monitoring.panel import ALL, CALLS, GREEN_FROM_ONE, OF, RED_FROM_ONE, Panel, quantile, rate, stat, table

_CALL_TIME: Final = "mcp_server_operation_duration_seconds"
_SERVICE_TIME: Final = "rpc_client_call_duration_seconds"
_QUEUE_TIME: Final = "mcp_gateway_queue_wait_seconds"
_TOOL: Final = "service, gen_ai_tool_name"
_TOOL_LEGEND: Final = "{{service}} {{gen_ai_tool_name}}"
_PROCESS: Final = "{{job}} {{instance}}"

ROWS: Final[dict[str, tuple[Panel, ...]]] = {
    "Is it up?": (
        stat(
            "Scraped",
            {_PROCESS: f"up{{{ALL}}}"},
            "0: no metrics from this process; everything else here is old.",
            GREEN_FROM_ONE,
        ),
        stat(
            "Services listed",
            {"{{service}}": f"min by (job, service) (mcp_gateway_service_available{{{OF}}})"},
            "0: no listing that can be shown, or the last refresh failed. /readyz?verbose has the reason.",
            GREEN_FROM_ONE,
        ),
        stat(
            "Breakers open",
            {"{{service}}": f"max by (job, service) (mcp_gateway_breaker_open{{{OF}}})"},
            "The service, or a tool, does not answer: calls are refused, except one a second.",
            RED_FROM_ONE,
        ),
        stat(
            "Shared store",
            {_PROCESS: f"mcp_gateway_store_available{{{ALL}}}"},
            "0: Redis is away, and each replica decides alone.",
            GREEN_FROM_ONE,
        ),
        stat(
            "Workers",
            {
                "{{instance}} serving": f"mcp_gateway_workers{{{ALL}}}",
                "{{instance}} configured": f"mcp_gateway_workers_configured{{{ALL}}}",
            },
            "Fewer than configured: one ended or hangs.",
            GREEN_FROM_ONE,
        ),
        stat(
            "Alerts",
            {"": 'count(ALERTS{alertname=~"McpGateway.*",alertstate="firing"}) or vector(0)'},
            "docs/operating.md has a remedy for each.",
            RED_FROM_ONE,
        ),
        Panel(
            "Requests, by outcome",
            {"{{outcome}}": rate("mcp_gateway_requests_total", "outcome")},
            "What callers get. tool_error is HTTP 200 on MCP: rates of HTTP statuses do not show it.",
            "reqps",
        ),
        Panel(
            "Share of calls that fail at the service",
            {
                "{{service}}": f"job_service:mcp_gateway_calls_failed_by_service:rate5m{{{OF}}}"
                f" / job_service:mcp_gateway_calls:rate5m{{{OF}}}"
            },
            "Callers' own mistakes, limits and tokens do not count. The alert begins at 5 %.",
            "percentunit",
        ),
        table(
            "Alerts that fire",
            'ALERTS{alertname=~"McpGateway.*",alertstate="firing"}',
            "The alert's annotation has the remedy.",
            ("Value", "alertstate"),
        ),
        Panel(
            "Memory",
            {_PROCESS: f"process_resident_memory_bytes{{{ALL}}}"},
            "About 80 MiB, the listings, and one and a half times server.max_buffered at most.",
            "bytes",
        ),
        Panel(
            "Connections, as a share of the limit",
            {_PROCESS: f"mcp_gateway_connections_open{{{ALL}}} / mcp_gateway_connections_limit{{{ALL}}}"},
            "At 100 % newcomers get 503. The alert begins at 80 %.",
            "percentunit",
        ),
        Panel(
            "Bytes of calls, as a share of the limit",
            {
                "{{instance}} held": f"mcp_gateway_response_bytes_held{{{ALL}}}"
                f" / mcp_gateway_response_bytes_limit{{{ALL}}}",
                "{{instance}} read ahead": f"mcp_gateway_request_bytes_read_ahead{{{ALL}}}"
                f" / mcp_gateway_response_bytes_limit{{{ALL}}}",
            },
            "Large bodies are refused from five eighths on.",
            "percentunit",
        ),
    ),
    "Is it slow, and where?": (
        Panel(
            "The whole call",
            {
                "{{service}} p50": quantile(0.5, _CALL_TIME, CALLS),
                "{{service}} p99": quantile(0.99, _CALL_TIME, CALLS),
            },
            "From the head of the request to its response. The alert begins at a p99 of 2 s.",
            "s",
        ),
        Panel(
            "The service alone",
            {"{{service}} p50": quantile(0.5, _SERVICE_TIME), "{{service}} p99": quantile(0.99, _SERVICE_TIME)},
            "As long as the whole call: the service is slow.",
            "s",
        ),
        Panel(
            "The wait in the queue",
            {"{{service}} p50": quantile(0.5, _QUEUE_TIME), "{{service}} p99": quantile(0.99, _QUEUE_TIME)},
            "Long: backend.connections is too small for the load, or the service too slow.",
            "s",
        ),
        Panel(
            "Calls at the service, and those that wait",
            {
                "{{service}} running": f"sum by (service) (mcp_gateway_slots_in_use{{{OF}}})",
                "{{service}} at most": f"sum by (service) (mcp_gateway_slots{{{OF}}})",
                "{{service}} waiting": f"sum by (service) (mcp_gateway_queue_length{{{OF}}})",
            },
            "Running at the maximum while others wait: the queue is the reason.",
        ),
        Panel(
            "Slowest tools, mean",
            {
                _TOOL_LEGEND: f"topk(10, {rate('mcp_gateway_tool_call_seconds_total', _TOOL)}"
                f" / {rate('mcp_gateway_tool_calls_total', _TOOL)})"
            },
            "One tool alone: catalog.tools.*.timeout bounds it.",
            "s",
        ),
        Panel(
            "Tools that take most of the time",
            {_TOOL_LEGEND: f"topk(10, {rate('mcp_gateway_tool_call_seconds_total', _TOOL)})"},
            "Seconds of calls in each second: how many of the tool run at a time.",
        ),
        Panel(
            "Lag of the event loop",
            {_PROCESS: f"mcp_gateway_event_loop_lag_seconds{{{ALL}}}"},
            "Every call waits as long. Over 100 ms: too little processor time, or one piece of work holds the loop.",
            "s",
        ),
        Panel(
            "Processor time",
            {_PROCESS: f"rate(process_cpu_seconds_total{{{ALL}}}[$__rate_interval])"},
            "One process uses one core at most: at 1, take server.workers or more replicas.",
            "percentunit",
        ),
        Panel(
            "Questions to issuers about tokens",
            {"{{service}} p99": quantile(0.99, "mcp_gateway_introspection_duration_seconds")},
            "Each caller waits for it when a token is new.",
            "s",
        ),
    ),
    "Who is refused?": (
        Panel(
            "Requests that were not served, by outcome",
            {
                "{{service}} {{outcome}}": rate(
                    "mcp_gateway_requests_total", "service, outcome", f'{OF},outcome!~"ok|input_required"'
                )
            },
            "docs/http.md has each word, its cause, and what a client should do.",
            "reqps",
        ),
        Panel(
            "Over a limit",
            {"{{service}} {{limit}}": rate("mcp_gateway_limits_refused_total", "service, limit")},
            "The log has the caller of each.",
            "reqps",
        ),
        Panel(
            "Tokens refused",
            {"{{service}} {{reason}}": rate("mcp_gateway_tokens_refused_total", "service, reason")},
            "Signature or key: the issuer changed. Audience: a client asks for another resource. Time: a clock.",
            "reqps",
        ),
        Panel(
            "Tools that fail",
            {_TOOL_LEGEND: "topk(10, " + rate("mcp_gateway_tool_calls_total", _TOOL, f'{OF},outcome="failed"') + ")"},
            "One tool: its arguments or its code. All of a service: the service.",
            "reqps",
        ),
        Panel(
            "Refused for want of room",
            {
                "{{instance}} connections": f"rate(mcp_gateway_connections_refused_total{{{ALL}}}[$__rate_interval])",
                "{{service}} breakers opened": rate("mcp_gateway_breaker_openings_total", "service"),
                "{{service}} sent again": rate("mcp_gateway_resends_total", "service"),
            },
            "Connections: server.max_connections. Breakers: the service does not answer.",
            "reqps",
        ),
        Panel(
            "Age of the issuers' keys, as a share of their life",
            {
                "{{service}} {{issuer}}": f"mcp_gateway_issuer_keys_age_seconds{{{OF}}}"
                f" / mcp_gateway_issuer_keys_max_age_seconds{{{OF}}}"
            },
            "Over 100 %: they cannot be fetched.",
            "percentunit",
        ),
        Panel(
            "Errors of the service, by code",
            {
                "{{service}} {{error_type}}": rate(
                    f"{_SERVICE_TIME}_count", "service, error_type", f'{OF},error_type!=""'
                )
            },
            "A number is the service's own JSON-RPC code; a word is the exchange itself.",
            "reqps",
        ),
        Panel(
            "Streams and sessions",
            {
                "{{service}} streams": f"sum by (service) (mcp_gateway_streams_open{{{OF}}})",
                "{{service}} sessions": f"sum by (service) (mcp_gateway_sessions_open{{{OF}}})",
            },
            "limits.streams bounds those of one caller.",
        ),
        Panel(
            "The shared store",
            {
                "{{instance}} commands": f"rate(mcp_gateway_store_commands_total{{{ALL}}}[$__rate_interval])",
                "{{instance}} permits leased": f"mcp_gateway_store_permits_leased{{{ALL}}}",
            },
            "A caller at twice its limit costs one command for nearly each call.",
        ),
    ),
    "What changed?": (
        table(
            "Versions",
            f"mcp_gateway_build_info{{{ALL}}}",
            "Different versions side by side: a rollout that is not over.",
            ("Value",),
        ),
        table(
            "Configuration",
            f"mcp_gateway_config_info{{{ALL}}}",
            "Different hashes: replicas that do not have the same configuration.",
            ("Value",),
        ),
        Panel(
            "Reloads",
            {
                "{{instance}} {{result}}": f"increase(mcp_gateway_config_reloads_total{{{ALL}}}[$__rate_interval])",
                "{{instance}} last one taken": f"mcp_gateway_config_last_reload_successful{{{ALL}}}",
                "{{instance}} files missing": f"mcp_gateway_config_files_missing{{{ALL}}}",
            },
            "Refused: the log and /readyz name the knob.",
        ),
        Panel(
            "Since the start, and since the last reload",
            {
                "{{instance}} start": f"time() - mcp_gateway_start_time_seconds{{{ALL}}}",
                "{{instance}} reload": f"time() - mcp_gateway_config_last_reload_timestamp_seconds{{{ALL}}}",
                "{{instance}} workers replaced": f"mcp_gateway_workers_replaced_total{{{ALL}}}",
            },
            "A line that falls is a restart, or a reload.",
            "s",
        ),
        Panel(
            "Tools",
            {"{{service}}": f"max by (service) (mcp_gateway_catalog_tools{{{OF}}})"},
            "The log names those that are new and gone.",
        ),
        Panel(
            "Left out, and held back",
            {
                "{{service}} quarantined": f"max by (service) (mcp_gateway_catalog_quarantined{{{OF}}})",
                "{{service}} differ from the pins": f"max by (service) (mcp_gateway_catalog_pin_drift{{{OF}}})",
            },
            "`check` names each method, the reason, and the remedy.",
        ),
        Panel(
            "Refreshes of the listings",
            {"{{service}} {{result}}": rate("mcp_gateway_catalog_refreshes_total", "service, result")},
            "Failed: the last good listing is shown until catalog.max_stale.",
            "reqps",
        ),
        Panel(
            "Age of the listings",
            {"{{service}}": f"max by (service) (mcp_gateway_catalog_age_seconds{{{OF}}})"},
            "More than catalog.ttl: refreshes fail.",
            "s",
        ),
        Panel(
            "Until a certificate ends",
            {"{{service}} {{file}}": f"mcp_gateway_certificate_expiry_seconds{{{OF}}} - time()"},
            "The alert begins at 14 days.",
            "s",
        ),
        Panel(
            "Lines lost",
            {
                "{{instance}} log": f"increase(mcp_gateway_log_lines_lost_total{{{ALL}}}[$__rate_interval])",
                "{{instance}} audit": f"increase(mcp_gateway_audit_lines_lost_total{{{ALL}}}[$__rate_interval])",
            },
            "What reads them is too slow, or the disk is full.",
        ),
    ),
}
