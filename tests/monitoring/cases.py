"""Series under which each alert fires, and similar ones under which it does not; promtool evaluates them.

Values are promtool's: ``0+60x30`` begins at 0 and grows by 60 each minute, 30 times; ``1x30`` stays; ``_`` is no
sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

Series: TypeAlias = dict[str, str]

_JOB: Final = 'namespace="mcp",job="jsonrpc-mcp-gateway"'
_CRM: Final = f'{_JOB},service="crm",instance="10.0.0.7:9090"'
_OTHER: Final = f'{_JOB},service="crm",instance="10.0.0.8:9090"'
_POD: Final = f'{_JOB},instance="10.0.0.7:9090"'
_CALLS: Final = 'surface="mcp",mcp_method_name="tools/call"'
_FAILURES: Final = (
    "tool_error", "execution_error", "backend_unavailable", "backend_busy", "backend_timeout", "bad_backend_answer",
    "result_mismatch",
)  # fmt: skip

SERVICE: Final = {"namespace": "mcp", "job": "jsonrpc-mcp-gateway", "service": "crm"}
PROCESS: Final = {"namespace": "mcp", "job": "jsonrpc-mcp-gateway", "instance": "10.0.0.7:9090"}
_OF_SERVICE: Final = "jsonrpc-mcp-gateway/crm: "
_OF_PROCESS: Final = "jsonrpc-mcp-gateway 10.0.0.7:9090: "


@dataclass(frozen=True)
class Case:
    """What fires after ``at`` minutes, with these labels beside the severity and with this summary, and what does not:
    by the reason."""

    labels: dict[str, str]
    summary: str
    fires: Series
    quiet: dict[str, Series]
    at: int = 25


def _gauge(name: str, value: float, labels: str = _POD) -> Series:
    return {f"{name}{{{labels}}}": f"{value}x30"}


def _counter(name: str, labels: str, a_minute: float) -> Series:
    return {f"{name}{{{labels}}}": f"0+{a_minute}x30"}


def _requests(**outcomes: float) -> Series:
    """Requests a minute, by outcome; each of two replicas has half of them."""
    found: Series = {}
    for outcome, a_minute in outcomes.items():
        for replica in (_CRM, _OTHER):
            labels = f'{replica},surface="mcp",outcome="{outcome}"'
            found |= _counter("mcp_gateway_requests_total", labels, a_minute / 2)
    return found


def _calls(a_minute: float, slow: float = 0.0) -> Series:
    """Calls a minute, half of them at each of two replicas, and ten times as many listings. Some calls of the first
    replica take between 2 and 5 seconds, and all others up to 10 ms."""
    half = a_minute / 2
    listings = f'{_CRM},surface="mcp",mcp_method_name="tools/list"'
    return (
        _operations(f"{_CRM},{_CALLS}", half, slow)
        | _operations(f"{_OTHER},{_CALLS}", half)
        | _operations(listings, 10 * a_minute)
    )


def _operations(labels: str, a_minute: float, slow: float = 0.0) -> Series:
    name = "mcp_server_operation_duration_seconds"
    counts = {"0.01": a_minute - slow, "2": a_minute - slow, "5": a_minute, "+Inf": a_minute}
    found = _counter(f"{name}_count", labels, a_minute)
    for bound, count in counts.items():
        found |= _counter(f"{name}_bucket", f'{labels},le="{bound}"', count)
    return found


def _refused(values: str) -> Series:
    """Tokens that each of two replicas refused, of a service that is there all the time."""
    there = {f"mcp_gateway_service_available{{{_CRM}}}": "1x1500"}
    return there | {
        f'mcp_gateway_tokens_refused_total{{{replica},reason="expired"}}': values for replica in (_CRM, _OTHER)
    }


def _share(part: str, whole: str, value: float) -> Series:
    return _gauge(part, value * 1000) | _gauge(whole, 1000)


def _keys(ages: str | None) -> Series:
    """Keys of an issuer with these ages; None: they were never fetched."""
    labels = f'{_CRM},issuer="https://login.example.com"'
    most = {f"mcp_gateway_issuer_keys_max_age_seconds{{{labels}}}": "86400x200"}
    return most if ages is None else most | {f"mcp_gateway_issuer_keys_age_seconds{{{labels}}}": ages}


def _left_out(values: str, pinned: str = "0x30", labels: str = _CRM) -> Series:
    return {
        f"mcp_gateway_catalog_quarantined{{{labels}}}": values,
        f"mcp_gateway_catalog_pin_drift{{{labels}}}": pinned,
    }


CASES: Final[dict[str, Case]] = {
    "McpGatewayNotScraped": Case(
        PROCESS,
        "jsonrpc-mcp-gateway 10.0.0.7:9090: no metrics for 5 minutes",
        _gauge("up", 0),
        {
            "it is there": _gauge("up", 1),
            "another job is gone": _gauge("up", 1) | {'up{job="node"}': "0x30"},
            "missed for two minutes": {f"up{{{_POD}}}": "1x23 0x1 1x5"},
        },
    ),
    "McpGatewayServiceNotListed": Case(
        SERVICE,
        f"{_OF_SERVICE}the service could not be listed for 10 minutes",
        _gauge("mcp_gateway_service_available", 0, _CRM) | _gauge("mcp_gateway_service_available", 1, _OTHER),
        {
            "listed": _gauge("mcp_gateway_service_available", 1, _CRM),
            "back after five minutes": {f"mcp_gateway_service_available{{{_CRM}}}": "1x5 0x5 1x19"},
        },
    ),
    "McpGatewayBreakerOpen": Case(
        SERVICE,
        f"{_OF_SERVICE}2 circuit breakers are open",
        _gauge("mcp_gateway_breaker_open", 2, _CRM) | _gauge("mcp_gateway_breaker_open", 1, _OTHER),
        {
            "closed": _gauge("mcp_gateway_breaker_open", 0, _CRM),
            "open for a minute": {f"mcp_gateway_breaker_open{{{_CRM}}}": "0x23 1x1 0x5"},
        },
    ),
    "McpGatewayStoreAway": Case(
        PROCESS,
        f"{_OF_PROCESS}the shared store is away for 5 minutes",
        _gauge("mcp_gateway_store_available", 0),
        {
            "there": _gauge("mcp_gateway_store_available", 1),
            "a failover": {f"mcp_gateway_store_available{{{_POD}}}": "1x20 0x3 1x6"},
        },
    ),
    "McpGatewayRestarts": Case(
        PROCESS,
        f"{_OF_PROCESS}it started 2 times in 15 minutes",
        {f"mcp_gateway_start_time_seconds{{{_POD}}}": "100x14 900x4 1200x10"},
        {"one restart, as planned": {f"mcp_gateway_start_time_seconds{{{_POD}}}": "100x14 900x15"}},
    ),
    "McpGatewayWorkerReplaced": Case(
        PROCESS,
        f"{_OF_PROCESS}a worker ended or hung, and was replaced",
        {f"mcp_gateway_workers_replaced_total{{{_POD}}}": "0x20 1x9"},
        {
            "none": _gauge("mcp_gateway_workers_replaced_total", 0),
            "half an hour ago": {f"mcp_gateway_workers_replaced_total{{{_POD}}}": "0x2 1x27"},
        },
    ),
    "McpGatewayServiceErrors": Case(
        SERVICE,
        f"{_OF_SERVICE}14% of the calls fail at the service",
        _calls(100) | _requests(ok=86, **dict.fromkeys(_FAILURES, 2)),
        {
            "few failures among many calls": _calls(60) | _requests(ok=58, tool_error=2),
            "three of three calls in five minutes": _calls(0.6) | _requests(tool_error=0.6),
            "callers' own mistakes": _calls(60) | _requests(ok=30, invalid_arguments=20, rate_limited=5, left=5),
        },
    ),
    "McpGatewayServiceSlow": Case(
        SERVICE,
        f"{_OF_SERVICE}one call in a hundred takes over 4.85s",
        _calls(60, slow=12),
        {"fast": _calls(60), "slow, but few": _calls(6, slow=3), "one in two hundred": _calls(200, slow=1)},
    ),
    "McpGatewayLoopLag": Case(
        PROCESS,
        f"{_OF_PROCESS}everything waits up to 250ms for the event loop",
        _gauge("mcp_gateway_event_loop_lag_seconds", 0.25),
        {
            "little": _gauge("mcp_gateway_event_loop_lag_seconds", 0.09),
            "one pause": {f"mcp_gateway_event_loop_lag_seconds{{{_POD}}}": "0x22 3x1 0x6"},
        },
    ),
    "McpGatewayConnections": Case(
        PROCESS,
        f"{_OF_PROCESS}90% of the connections are open",
        _share("mcp_gateway_connections_open", "mcp_gateway_connections_limit", 0.9),
        {"three quarters": _share("mcp_gateway_connections_open", "mcp_gateway_connections_limit", 0.75)},
    ),
    "McpGatewayBytesHeld": Case(
        PROCESS,
        f"{_OF_PROCESS}90% of the memory for calls is in use",
        _share("mcp_gateway_response_bytes_held", "mcp_gateway_response_bytes_limit", 0.9),
        {"three quarters": _share("mcp_gateway_response_bytes_held", "mcp_gateway_response_bytes_limit", 0.75)},
    ),
    "McpGatewayTokensRefused": Case(
        SERVICE,
        f"{_OF_SERVICE}ten times as many tokens are refused as on the day before",
        _refused("0+0.4x1440 580.12+4.12x60"),
        {
            "as many as on the day before": _refused("0+20x1500"),
            "nine times as many": _refused("0+4x1440 5796+36x60"),
            "few, where there were none": _refused("0x1440 0+2x60"),
            "for three minutes": _refused("0x1448 0+60x60"),
        },
        at=1452,
    ),
    "McpGatewayRateLimited": Case(
        SERVICE,
        f"{_OF_SERVICE}10% of the requests are over a limit (429)",
        _requests(ok=90, rate_limited=10),
        {
            "one in two hundred": _requests(ok=995, rate_limited=5),
            "three in five minutes, of many": _requests(ok=30, rate_limited=0.6),
        },
    ),
    "McpGatewayIssuerKeysOld": Case(
        {**PROCESS, "service": "crm", "issuer": "https://login.example.com"},
        f"{_OF_PROCESS}the keys of https://login.example.com are 1h 55m 0s old",
        _keys("0+60x200"),
        {
            "renewed each hour": _keys("0+60x59 0+60x59 0+60x59"),
            "a gateway that runs for an hour": _keys("_x70 0+60x100"),
        },
        at=115,
    ),
    "McpGatewayConfigRefused": Case(
        PROCESS,
        f"{_OF_PROCESS}the changed configuration is faulty and was not taken",
        _gauge("mcp_gateway_config_last_reload_successful", 0),
        {
            "taken": _gauge("mcp_gateway_config_last_reload_successful", 1),
            "corrected at once": {f"mcp_gateway_config_last_reload_successful{{{_POD}}}": "1x24 0x0 1x5"},
        },
    ),
    "McpGatewayConfigFileMissing": Case(
        PROCESS,
        f"{_OF_PROCESS}1 files that the configuration names are gone",
        _gauge("mcp_gateway_config_files_missing", 1),
        {
            "all there": _gauge("mcp_gateway_config_files_missing", 0),
            "while a volume is swapped": {f"mcp_gateway_config_files_missing{{{_POD}}}": "0x22 1x1 0x6"},
        },
    ),
    "McpGatewayPinDrift": Case(
        SERVICE,
        f"{_OF_SERVICE}3 tools are held back, since they differ from what was reviewed",
        _gauge("mcp_gateway_catalog_pin_drift", 3, _CRM) | _gauge("mcp_gateway_catalog_pin_drift", 2, _OTHER),
        {"none": _gauge("mcp_gateway_catalog_pin_drift", 0, _CRM)},
    ),
    "McpGatewayToolsQuarantined": Case(
        SERVICE,
        f"{_OF_SERVICE}methods were newly left out; it is 3 now",
        _left_out("2x9 3x20") | _left_out("2x9 3x20", labels=_OTHER),
        {
            "as many as before": _left_out("2x30"),
            "fewer": _left_out("3x9 2x20"),
            "for a minute": _left_out("2x23 3x1 2x5"),
            "those that the pins hold back": _left_out("2x9 3x20", pinned="0x9 1x20"),
            "a gateway that starts": _left_out("_x9 2x20", pinned="_x9 0x20"),
            "a new replica": _left_out("2x30") | _left_out("_x9 2x20", pinned="_x9 0x20", labels=_OTHER),
        },
    ),
    "McpGatewayCertificateEnds": Case(
        {**PROCESS, "service": "crm", "file": "/etc/tls/client.pem"},
        f"{_OF_PROCESS}the certificate /etc/tls/client.pem ends in 9d 23h 35m 0s",
        _gauge("mcp_gateway_certificate_expiry_seconds", 864000, f'{_CRM},file="/etc/tls/client.pem"'),
        {"good for a month": _gauge("mcp_gateway_certificate_expiry_seconds", 2592000, f'{_CRM},file="/c.pem"')},
    ),
    "McpGatewayLogLinesLost": Case(
        PROCESS,
        f"{_OF_PROCESS}15 lines of the log were lost in 15 minutes",
        _counter("mcp_gateway_log_lines_lost_total", _POD, 1),
        {"none": _gauge("mcp_gateway_log_lines_lost_total", 0)},
    ),
    "McpGatewayAuditLinesLost": Case(
        PROCESS,
        f"{_OF_PROCESS}30 lines of the audit were lost in 15 minutes",
        _counter("mcp_gateway_audit_lines_lost_total", _POD, 2),
        {"none": _gauge("mcp_gateway_audit_lines_lost_total", 0)},
    ),
}
