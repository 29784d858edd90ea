"""Define the knobs of limits per caller."""

from __future__ import annotations

from gateway.settings.knobs import Section, knob
from gateway.units import Rate


class Limits(Section):
    """Limits per caller."""

    discovery: Rate = knob(
        "60/minute",
        "Listings per caller, or per address without a token: that many at once, then one by one at that rate. As "
        "many sessions may be ended, and ten times as many further pages (cursors) are allowed.",
    )
    invocation: Rate = knob(
        "600/minute",
        "Calls per caller, or per address without a token: a tenth of them at once, but at least ten, then one by one "
        "at that rate.",
    )
    concurrent: int = knob(
        16, "Calls under way per caller, including those that wait. A batch counts as one.", ge=1, le=100_000
    )
    streams: int = knob(
        32, "Open streams per caller, or per address without a token. A call with progress is one.", ge=1, le=100_000
    )
