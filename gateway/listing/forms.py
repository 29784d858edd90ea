"""Name the message forms in which a backend's listing is asked for: the first one, and those to try after it."""

from dataclasses import replace

from gateway.backend.source import ALWAYS, ONE, PLAIN
from gateway.model import MessageForm
from gateway.settings.backend import Backend


def form_of(settings: Backend) -> MessageForm:
    """Return the configured message form, or the first one to try."""
    form = {"1.0": ONE, "2.0-with-params": ALWAYS}.get(settings.version, PLAIN)
    alone = settings.calls_per_connection == 1
    return replace(form, integer_ids=settings.ids == "integer", framing=settings.framing, alone=alone)


def other_forms(settings: Backend) -> tuple[MessageForm, ...]:
    """Return the message forms to try where the backend does not understand the first."""
    first = form_of(settings)
    others = {"auto": (ALWAYS, ONE), "2.0": (ALWAYS,)}.get(settings.version, ())
    forms = [replace(form, integer_ids=first.integer_ids, framing=first.framing) for form in others]
    if settings.ids == "auto":
        forms.append(replace(first, integer_ids=True))
    if settings.wire == "stream" and settings.framing == "auto":
        forms += [replace(first, framing=framing) for framing in ("etx", "content-length")]
    forms = [replace(form, alone=first.alone) for form in forms]
    return tuple(form for form in forms if form != first)
