"""Define what a transport is: it sends one JSON-RPC message to the service, and returns the message that came back.

| what came of it | how a transport says it |
|---|---|
| a message of the service | a :class:`Reply`, whatever is in it |
| the credential, or the caller, is refused | :attr:`Reply.refused` |
| the service is busy | :attr:`Reply.retry_after` |
| the service surely did not run it | :attr:`Reply.ran_nothing`; whatever error came: :attr:`Reply.is_throttled` |
| what came cannot be a response | :meth:`Reply.failure`; :class:`~gateway.http_client.response.UnusableAnswer` |
| surely not sent | an :class:`~gateway.http_client.response.OutboundError` whose ``sent`` is False |
| unknown | any other :class:`~gateway.http_client.response.OutboundError` |

Queue, breaker, deadlines, resends, redaction and records know no more than this.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final, Protocol

from msgspec import Struct

from gateway.backend.request_parts import NOTHING, RequestParts
from gateway.errors import ToolFault
from gateway.model import HttpFacts, MessageForm, SourceAnswer

UNKNOWN: Final = "whether the call took effect is unknown"
"""Words of each error for a call that the service may have run."""
UNSENT: Final = "was not sent, so it is safe to repeat"
EARLIER: Final = f"an earlier try was sent, and {UNKNOWN}"
"""Words in place of such a claim where an earlier exchange may have run the call."""
MAX_LISTING: Final = 16 * 1024**2
"""Largest answer of a listing, in bytes, unless ``backend.max_response`` is larger."""


class Outgoing(Struct, eq=False, gc=False):
    """Hold one message for the service: its bytes and its ``id``, which is None for a notification. ``parts`` say who
    asks; those within the message are in ``body`` already. ``headers`` are theirs, and those of this message alone (the
    ids of request and trace), for transports that have such. ``url`` is another one than the transport's own. Without
    a ``body`` it asks for the document at that URL."""

    id: str | int | None
    body: bytes
    parts: RequestParts
    headers: Mapping[str, str] = NOTHING
    url: str | None = None
    form: MessageForm = MessageForm()
    """The form of the body, which says how messages are told apart on a stream."""


class Refusal(Enum):
    """Name whom the service refuses, whatever the message says."""

    CREDENTIAL = "credential"
    CALLER = "caller"


class Reply(Struct, eq=False, gc=False):
    """Hold the message that came back. Here it says all there is; a transport that knows more has its own class."""

    body: bytes
    refused: Refusal | None = None

    @property
    def label(self) -> str:
        """Return what to call it in a sentence for the operator."""
        return "a message"

    @property
    def http(self) -> HttpFacts | None:
        """Return the evidence for a diagnosis, where it came over HTTP."""
        return None

    @property
    def is_alone(self) -> bool:
        """Return whether it can answer no other message than the one that was sent."""
        return False

    @property
    def is_success(self) -> bool:
        """Return whether the message may be less than a response: a bare result, or nothing for a notification."""
        return True

    @property
    def blames_message(self) -> bool:
        """Return whether the service may refuse the form of the message, rather than answer it."""
        return False

    @property
    def cannot_serve(self) -> bool:
        """Return whether the service decided nothing: it may do so later."""
        return False

    @property
    def retry_after(self) -> int | None:
        """Return the seconds after which to come again, where the service is busy and says so. Whether the message was
        run is another question."""
        return None

    @property
    def ran_nothing(self) -> bool:
        """Return whether the message surely was not run, unless it was answered by a response."""
        return False

    @property
    def is_throttled(self) -> bool:
        """Return whether the message was not run, whatever error came back."""
        return False

    @property
    def wanted_pause(self) -> int | None:
        """Return the seconds for which the service itself wants no question, however many."""
        return None

    def failure(self) -> ToolFault | None:
        """Return the caller's error for a message that is no response, where more is known than that."""
        return None

    def summary(self, violation: str = "not JSON") -> SourceAnswer:
        """Return what the operator reads of a message that is no response."""
        return SourceAnswer(f"{self.label}, no JSON-RPC response: {violation}")


class Transport(Protocol):
    """Send messages to one service."""

    has_documents: bool
    """Says whether a message may ask for a document."""

    async def ends_after_one(self, patience: float) -> bool:
        """Return whether the service ends each connection behind one answer, where calls share connections. It may do
        so ``patience`` seconds after the answer."""
        ...

    async def send(self, outgoing: Outgoing, *, timeout: float, max_bytes: int) -> Reply:
        """Send a message. ``timeout`` is in seconds, for all of it. Raises
        :class:`~gateway.http_client.response.OutboundError`."""
        ...
