"""Say what the gauges and counters of a process are now, beside those of its services."""

import hashlib
import platform
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from gateway import __version__
from gateway.concurrency.turns import LoopLag
from gateway.config.certificate import Certificate
from gateway.http_server.connection_limit import ConnectionLimit
from gateway.http_server.held_bytes import HeldBytes
from gateway.settings import Settings
from gateway.store import ServerStore
from gateway.telemetry import audit, tracing
from gateway.telemetry.cells import Key
from gateway.telemetry.logs import lines_lost

_STARTED: Final = time.time()


@dataclass
class ReloadState:
    """Hold how the reloads ended, the time of the last good one, a digest of what is in force, and missing files."""

    ended: Counter[str] = field(default_factory=Counter)
    at: float = field(default_factory=time.time)
    is_good: bool = True
    digest: str = ""
    missing: int = 0
    certificate: Certificate | None = None
    """That of the public port, None without TLS."""

    def count(self, *, is_good: bool) -> None:
        self.is_good = is_good
        self.ended["ok" if is_good else "refused"] += 1
        if is_good:
            self.at = time.time()

    def apply(self, settings: Settings) -> None:
        """Note that a configuration is in force. Secrets are not part of its digest."""
        text = str(settings.model_dump(mode="json"))  # a variable of the environment may hold what is no UTF-8
        self.digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:12]


def process_gauges(
    store: ServerStore, held: HeldBytes, limit: ConnectionLimit | None, ahead: int, lag: LoopLag, reloads: ReloadState
) -> Iterator[tuple[Key, float]]:
    """Yield each value by its family and labels. ``limit`` is the public port's, ``ahead`` the bytes sent ahead."""
    values: dict[str, float] = {
        "store_available": not store.problem.cause,
        "store_commands_total": store.commands,
        "store_permits_leased": store.leased,
        "response_bytes_held": held.bytes,
        "response_bytes_limit": held.most,
        "request_bytes_read_ahead": ahead,
        "event_loop_lag_seconds": lag.seconds,
        "log_lines_lost_total": lines_lost(),
        "audit_lines_lost_total": auditor.lost if (auditor := audit.active) else 0,
        "spans_lost_total": traces.lost if (traces := tracing.active) else 0,
        "config_last_reload_successful": reloads.is_good,
        "config_last_reload_timestamp_seconds": reloads.at,
        "config_files_missing": reloads.missing,
    }
    if limit is not None:
        values |= {
            "connections_open": limit.open,
            "connections_limit": limit.most,
            "connections_refused_total": limit.refused,
        }
    for what, value in values.items():
        yield (f"mcp_gateway_{what}",), value
    if reloads.certificate is not None:
        yield ("mcp_gateway_certificate_expiry_seconds", "", reloads.certificate.file), reloads.certificate.end
    for result in ("ok", "refused"):
        yield ("mcp_gateway_config_reloads_total", result), reloads.ended[result]
    yield ("mcp_gateway_config_info", reloads.digest), 1


def admin_gauges(workers: int, configured: int, replaced: int) -> Iterator[tuple[Key, float]]:
    """Yield the values that only the process with the admin port has: about itself, and its workers."""
    yield ("mcp_gateway_workers",), workers
    yield ("mcp_gateway_workers_configured",), configured
    yield ("mcp_gateway_workers_replaced_total",), replaced
    yield ("mcp_gateway_build_info", __version__, platform.python_version()), 1
    yield ("mcp_gateway_start_time_seconds",), _STARTED
