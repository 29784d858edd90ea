"""Knobs of who may do how much."""

from __future__ import annotations

from gateway.settings.knobs import Section, knob
from gateway.units import Rate


class Limits(Section):
    """Who may do how much."""

    discovery: Rate = knob(
        "60/minute",
        "Listings per caller, by address without a token: as many at once, then one by one at that rate; ten times as "
        "many cursors may be followed.",
    )
    streams: int = knob(32, "Open streams per caller, by address without a token.", ge=1, le=100_000)
