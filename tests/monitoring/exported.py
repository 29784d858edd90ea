"""The metrics that the gateway exports."""

from typing import Final

_P: Final = "mcp_gateway_"
_NAMES = """
requests_total tool_calls_total tool_call_seconds_total catalog_tools catalog_quarantined catalog_age_seconds
catalog_last_refresh_timestamp_seconds catalog_refreshes_total catalog_pin_drift service_available
limits_refused_total queue_length queue_wait_seconds slots_in_use slots breaker_open breaker_openings_total
resends_total streams_open sessions_open tokens_refused_total issuer_keys_age_seconds
issuer_keys_max_age_seconds introspection_duration_seconds store_available store_commands_total
store_permits_leased workers workers_configured workers_replaced_total connections_open connections_limit
connections_refused_total response_bytes_held response_bytes_limit request_bytes_read_ahead
event_loop_lag_seconds log_lines_lost_total audit_lines_lost_total config_reloads_total
config_last_reload_successful config_last_reload_timestamp_seconds config_info config_files_missing build_info
certificate_expiry_seconds start_time_seconds"""
EXPORTED: Final = {_P + name for name in _NAMES.split()} | {
    "mcp_server_operation_duration_seconds",
    "rpc_client_call_duration_seconds",
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
}
