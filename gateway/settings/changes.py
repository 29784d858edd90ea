"""Say what a change of each knob of ``backend`` means for what the gateway knows of the service."""

from enum import IntEnum
from typing import Any, Final

from gateway.settings.backend import Backend


class Change(IntEnum):
    """What a reload that changes a knob may go on with. Of several changes the greatest counts."""

    KEEPS = 0
    """The listing does not derive from the knob, nor does what was learned: both go on."""
    DERIVES = 1
    """It does. Callers have the old listing, and their calls go to the old endpoint, until the new listing comes."""
    IDENTITY = 2
    """The service may list and do other things for another identity. Nothing old serves: callers wait."""


OF_KNOBS: Final = {
    Change.KEEPS: (
        "calls_per_connection", "timeout", "max_response", "errors", "not_run", "lenient", "connections",
        "queue_timeout", "tls.ca_file", "tls.cert_file", "tls.key_file", "listing.timeout",
    ),
    Change.DERIVES: (
        "url", "framing", "version", "ids", "content_type", "proxy", "tls.server_name", "tls.fingerprint", "params",
        "listing.dialect", "listing.url", "listing.file", "listing.documents", "listing.language", "listing.custom",
    ),
    Change.IDENTITY: ("headers", "caller_headers", "credentials", "listing.identity", "listing.credentials"),
}  # fmt: skip
"""Each knob of ``backend``, or the section that it is in, in one place."""


def change_of(before: Backend, after: Backend) -> Change:
    """Return what the change from one backend to the other means: KEEPS where they are equal."""
    return max(
        (change for change, knobs in OF_KNOBS.items() if _values(before, knobs) != _values(after, knobs)),
        default=Change.KEEPS,
    )


def listed_by(backend: Backend) -> str:
    """Return a text of all that the listing derives from: equal ones make equal listings. It has no secret: a repr
    masks them."""
    knobs = (*OF_KNOBS[Change.DERIVES], *OF_KNOBS[Change.IDENTITY])
    return repr(dict(zip(knobs, _values(backend, knobs), strict=True)))


def _values(backend: Backend, knobs: tuple[str, ...]) -> list[Any]:
    return [_value(backend, knob) for knob in knobs]


def _value(backend: Backend, knob: str) -> Any:
    value: Any = backend
    for name in knob.split("."):
        value = getattr(value, name)
    return value
