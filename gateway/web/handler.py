"""Name who answers the requests of a port, and hold what the connections of the port share."""

from __future__ import annotations

from typing import Any, Final, Protocol

import structlog

from gateway.errors import GatewayError
from gateway.telemetry.sampling import Sampler
from gateway.turns import Together
from gateway.web.answer import HttpAnswer, StreamedAnswer
from gateway.web.held_answers import HeldAnswers
from gateway.web.request import HttpRequest

_SAMPLE_SECONDS: Final = 10.0

log = structlog.get_logger()


class Handler(Protocol):
    """Answer the requests of a port."""

    async def __call__(self, request: HttpRequest, /) -> HttpAnswer | StreamedAnswer:
        """Return the answer. A stream has been sent by then."""
        ...

    def refusal(self, request: HttpRequest, error: GatewayError) -> HttpAnswer:
        """Return the answer to a request that did not reach the handler, or that made it raise."""
        ...


class Serving:
    """Hold what the connections of one port share."""

    def __init__(self, handler: Handler, write_timeout: float, held: HeldAnswers) -> None:
        self.handler = handler
        self.write_timeout = write_timeout
        self.held = held
        self.writes = Together()
        self.is_draining = False
        self.connections: set[Any] = set()
        """The open ones, each a :class:`gateway.web.connection.Connection`: that file imports this one."""
        self._malformed = Sampler(1, _SAMPLE_SECONDS)

    def log_malformed(self) -> None:
        """Log that malformed HTTP is refused. Lines are sampled: a flood of garbage must not fill the disk."""
        more = self._malformed.admit()
        if more is not None:
            log.warning("malformed HTTP refused", **more)
