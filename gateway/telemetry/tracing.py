"""Start and end the traces of this process. :mod:`gateway.telemetry.spans`, which needs the extra ``otel``, is imported
only where ``telemetry.traces`` is on. docs/tracing.md names spans, attributes and variables."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from gateway.settings.server import Telemetry
from gateway.telemetry import record as records
from gateway.telemetry.audit import TelemetryFault
from gateway.telemetry.record import SINKS

if TYPE_CHECKING:
    from gateway.telemetry.spans import Tracing

_SAMPLERS: Final = "[parentbased_]{always_on|always_off|traceidratio}, the last with a ratio from 0 to 1"

FLUSH: Final = 5.0
"""Most seconds for the spans that wait when the process ends."""
_LEAST: Final = 0.5

active: Tracing | None = None
"""The traces, if there are any. Each call looks at it, so it is read without a function."""


def start(knobs: Telemetry) -> None:
    """Trace every request that ends from now on, if the settings say so. Raises :class:`TelemetryFault`."""
    global active
    if knobs.traces == "off" or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return
    stop()
    try:
        # At the top, this would fail where the extra is not installed.
        from gateway.telemetry.spans import Tracing  # noqa: PLC0415

        active = Tracing(*_sampler(), shows_content=knobs.traces == "content")
    except ModuleNotFoundError:
        remedy = "pip install 'jsonrpc-mcp-gateway[otel]'"
        raise TelemetryFault(f"telemetry.traces: {knobs.traces} needs the extra otel: {remedy}") from None
    except ValueError as error:
        raise TelemetryFault(f"telemetry.traces: {error}") from None
    records.decide = active.decide
    SINKS.append(active.end)


def stop(left: float = FLUSH) -> None:
    """Send the spans that wait, and end the traces, if there are any. ``left`` is the seconds that the process may
    still take: it has from 0.5 to 5 for this."""
    global active
    if active is not None:
        ending, active, records.decide = active, None, None
        SINKS.remove(ending.end)
        ending.close(max(_LEAST, min(FLUSH, left)))


def _sampler() -> tuple[int, bool]:
    """Return how many of 2**64 traces are sampled, and whether a parent decides first. Raises :class:`ValueError`."""
    name = os.environ.get("OTEL_TRACES_SAMPLER", "").lower() or "parentbased_always_on"
    kind, ratio = name.removeprefix("parentbased_"), os.environ.get("OTEL_TRACES_SAMPLER_ARG") or "1"
    with suppress(KeyError, ValueError):
        if 0 <= (share := float({"always_on": "1", "always_off": "0", "traceidratio": ratio}[kind])) <= 1:
            return round(share * 2**64), kind != name
    raise ValueError(f"OTEL_TRACES_SAMPLER={name} with OTEL_TRACES_SAMPLER_ARG={ratio} must be {_SAMPLERS}")
