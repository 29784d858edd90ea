"""Calls of several rounds: input requests to the client, and the state between the rounds (2026-07-28, patterns/mrtr).

A method may answer ``{resultType: "input_required", …}``, and an operator may require a person's consent before a tool
runs. In both cases the client gets input requests and a ``requestState``, which it sends back with its responses. The
signature of the state covers the caller, the tool and the arguments. It expires after some minutes. A state that stands
for consent works once.
"""

import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gateway import jsonrpc
from gateway.errors import BackendError, BadBackendAnswer, InvalidParams, MissingCapability
from gateway.invocation.consent import consent_request
from gateway.model import Caller, CallExtras, InputRequest, JsonObject, Tool
from gateway.signing import SKEW, Signer, SigningKeys
from gateway.store import Store

WAIT: Final = 300.0
"""Longest wait for a person's answer, in seconds."""
TTL: Final = WAIT + 10.0
"""Seconds for which a state is good."""

MAX_STATE: Final = 64 * 1024
"""Most characters of a state that a client sends back."""
CONFIRM: Final = "confirm"
"""The name of the gateway's own input request, which asks for consent."""
_CAPABILITIES: Final = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}


@dataclass(frozen=True, slots=True)
class RequestState:
    """The state of an earlier round: whether a person agreed, the backend's own state, and a unique id."""

    consent: bool
    backend: str | None
    nonce: str


class InputRequests:
    """Make input requests, and sign and verify their states. ``keys`` are the resource's; ``clock`` gives wall-clock
    seconds, since replicas compare them. At a group, a person is asked about a tool of ``service``."""

    def __init__(
        self, keys: SigningKeys, store: Store, clock: Callable[[], float] = time.time, service: str = ""
    ) -> None:
        self._signer = Signer(keys, "requestState", TTL, clock)
        self._store = store
        self._of = f" of {service}" if service else ""

    def read_state(self, state: str, caller: Caller, tool: Tool, arguments: Mapping[str, Any]) -> RequestState:
        """Verify a state. Raise :class:`InvalidParams`: forged, for another call, or too old."""
        text = self._signer.verify(state, *_state_owner(caller, tool, arguments))
        if text is not None:
            nonce, consent, backend = jsonrpc.decode(text.encode())
            return RequestState(consent, backend, nonce)
        raise InvalidParams("requestState is not valid for this call, or too old; call again without it")

    async def is_first_answer(self, state: str, caller: Caller, tool: Tool, arguments: Mapping[str, Any]) -> bool:
        """Return whether ``state`` belongs to a request of ours and comes back for the first time."""
        if not (tool.confirm or tool.input_required):
            return False
        try:
            nonce = self.read_state(state, caller, tool, arguments).nonce
        except InvalidParams:
            return False
        return await self._store.add(f"answer:{nonce}", TTL + SKEW)

    async def request_consent(
        self, extras: CallExtras, state: RequestState | None, caller: Caller, tool: Tool, arguments: Mapping[str, Any]
    ) -> InputRequest | None:
        """Return None where a person has agreed, else the request for consent. Raise :class:`BackendError` where the
        person declined, :class:`InvalidParams` where the consent was used before,
        :class:`~gateway.errors.ConfirmationTooLong`."""
        answer = None if state is None else extras.responses.get(CONFIRM)
        if state is not None and state.consent:
            answer = {"action": "accept"}  # a later round: the person agreed, and the backend asked for input since
        if state is None or not isinstance(answer, Mapping) or "action" not in answer:
            signed_state = self._sign_state(_state_owner(caller, tool, arguments))
            return InputRequest({CONFIRM: consent_request(tool, arguments, self._of)}, signed_state)
        # The marker outlives the state, also where replicas' clocks differ.
        if not await self._store.add(f"consent:{state.nonce}", TTL + SKEW):
            raise InvalidParams("requestState was used before; call again without it")
        if answer["action"] != "accept":
            raise BackendError("The person did not agree to this call, so it was not made")
        return None

    def request_input(
        self, value: JsonObject, extras: CallExtras, caller: Caller, tool: Tool, arguments: Mapping[str, Any]
    ) -> InputRequest:
        """Return a backend's ``input_required`` result as input requests with a signed state. Raise
        :class:`BadBackendAnswer`, :class:`MissingCapability`."""
        requests, state = value.get("inputRequests", {}), value.get("requestState")
        is_valid = isinstance(requests, Mapping) and all(_is_input_request(request) for request in requests.values())
        if not is_valid or not (requests or state) or not isinstance(state, str | None):
            raise BadBackendAnswer("The backend's request for input is not one that MCP defines")
        require_capabilities(_needed_capabilities(requests.values()), extras)
        owner = _state_owner(caller, tool, arguments)
        signed_state = self._sign_state(owner, consent=tool.confirm, backend=state)
        if len(signed_state) > MAX_STATE:
            raise BadBackendAnswer("The backend's requestState is too large")
        return InputRequest(requests, signed_state)

    def _sign_state(self, owner: tuple[str, ...], *, consent: bool = False, backend: str | None = None) -> str:
        parts = [secrets.token_urlsafe(12), consent, backend]
        return self._signer.sign(jsonrpc.encode(parts).decode(), *owner)


def usable_extras(tool: Tool, extras: CallExtras) -> CallExtras | None:
    """Return the extras, None where the client lacks what the tool needs and may be served without. Raise
    :class:`MissingCapability` where it may not."""
    try:
        require_capabilities({**tool.requires, "elicitation": {}} if tool.confirm else tool.requires, extras)
    except MissingCapability:
        if extras.optional:
            return None
        raise
    return extras


def require_capabilities(needed: JsonObject, extras: CallExtras) -> None:
    """Raise :class:`MissingCapability` with the capabilities that the client did not declare, if any."""
    missing = {name: value for name, value in needed.items() if not _declares(extras.capabilities, name, value)}
    if missing:
        names = ", ".join(sorted(missing))
        raise MissingCapability(
            f"This tool needs a client with the capability {names}", data={"requiredCapabilities": missing}
        )


def _needed_capabilities(requests: Iterable[Any]) -> JsonObject:
    """Return all client capabilities that the input requests need, in the form of ``ClientCapabilities``."""
    modes: dict[str, set[str]] = {}
    for request in requests:
        is_url = request["method"] == "elicitation/create" and request["params"].get("mode") == "url"
        modes.setdefault(_CAPABILITIES[request["method"]], set()).add("url" if is_url else "form")
    return {name: {} if found == {"form"} else {mode: {} for mode in sorted(found)} for name, found in modes.items()}


def _declares(capabilities: JsonObject, name: str, needed: Any) -> bool:
    """Return whether the client declares a capability. Elicitation has modes; none declared means ``form`` (schema.ts
    ``ClientCapabilities``)."""
    declared = capabilities.get(name)
    if name != "elicitation" or not isinstance(declared, Mapping):
        return name in capabilities
    return set(needed or ("form",)) <= set(declared or ("form",))


def _is_input_request(request: Any) -> bool:
    """Return whether this is an ``InputRequest`` of schema.ts. For any other, clients refuse the whole answer."""
    if not isinstance(request, Mapping):
        return False
    method, params = request.get("method"), request.get("params", {})
    if not isinstance(params, Mapping):
        return False
    if method == "elicitation/create":
        schema = params.get("requestedSchema")
        is_form = isinstance(schema, Mapping) and schema.get("type") == "object" and "properties" in schema
        is_url = params.get("mode") == "url" and isinstance(params.get("url"), str)
        return isinstance(params.get("message"), str) and (is_form or is_url)
    if method == "sampling/createMessage":
        return isinstance(params.get("messages"), list) and type(params.get("maxTokens")) is int
    return bool(method == "roots/list")


def _state_owner(caller: Caller, tool: Tool, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what a state's signature covers: the caller, and the call with its arguments."""
    return (*caller.identity, tool.digest, jsonrpc.encode_canonical(arguments).decode())
