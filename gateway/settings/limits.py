"""Define the knobs of limits per caller."""

from __future__ import annotations

from gateway.settings.knobs import Section, knob
from gateway.units import Rate


class Limits(Section):
    """Limits per caller."""

    discovery: Rate = knob(
        "60/minute",
        "Listings per caller, or per address without a token: that many at once, then one by one at that rate. Ten "
        "times as many further pages (cursors) are allowed.",
    )
    streams: int = knob(32, "Open streams per caller, or per address without a token.", ge=1, le=100_000)
