"""Forward a call that may run to the service: with the credential, the deadline and the structure of ``params``."""

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import structlog
from msgspec import Struct

from gateway import jsonrpc
from gateway.backend.client import BackendClient
from gateway.backend.params import ParamStructures, ParamsValue
from gateway.backend.request_parts import RequestParts
from gateway.backend.resending import Attempts, Reason, ResendBudget
from gateway.backend.transport import EARLIER, UNSENT
from gateway.credentials.contract import Credential
from gateway.errors import (
    BackendBusy,
    BackendUnauthorized,
    BackendUnavailable,
    GatewayError,
    ParamsRefused,
    Unauthorized,
)
from gateway.invocation.input_requests import CONFIRM, RequestState
from gateway.jsonrpc.bounds import value_cost
from gateway.model import Caller, CallExtras, Tool
from gateway.telemetry import audit, tracing
from gateway.telemetry.record import RECORD
from gateway.text import masked_url

_LARGE: Final = 256 * 1024
"""Bytes of an exchange from which the values of its arguments are serialized before the call is sent."""

_REFUSED_BEFORE: Final = f"The backend does not accept the gateway's credential; the call {UNSENT}"

log = structlog.get_logger()


class FormerEndpoint(Protocol):
    """Forward calls of the tools that it owns."""

    def owns(self, caller: Caller, tool: Tool) -> bool: ...
    async def forward(self, *call: Any, answer_started: bool) -> Any: ...


@dataclass(eq=False, repr=False)
class Forwarder:
    """Send calls to one service. ``_timeout`` is the time in seconds of a call whose tool has none of its own.
    ``_is_refused`` asks the service about the credential, and returns None where nobody answers.
    ``after_params_refused`` is called where the service does not take the params: its listing may have changed."""

    _client: BackendClient
    _credential: Credential
    _param_structures: ParamStructures
    _budget: ResendBudget
    _timeout: float
    _is_refused: Callable[[], Awaitable[bool | None]]
    after_params_refused: Callable[[], None] = lambda: None
    former: FormerEndpoint | None = None
    """Where calls of tools go that a predecessor listed, while a reload hands over from it."""

    def __repr__(self) -> str:
        url, credential = masked_url(self._client.url), type(self._credential).__name__
        return f"<Forwarder to {url} with {credential}, {self._timeout:g} s>"

    def method_and_params(self, tool: Tool, arguments: Mapping[str, Any]) -> tuple[str, ParamsValue]:
        """Return what a call would be sent as, before credentials. Raise :class:`~gateway.errors.InvalidArguments`."""
        return tool.binding.method, self._param_structures.params_of(tool.binding, arguments)

    async def forward(
        self,
        caller: Caller,
        tool: Tool,
        arguments: Mapping[str, Any],
        extras: CallExtras | None,
        state: RequestState | None,
        *,
        answer_started: bool,
    ) -> Any:
        """Return the service's result. A 401 of the service ends the exchange with the client only before the answer
        has started.

        Raise :class:`~gateway.errors.ToolFault`; :class:`~gateway.errors.Unauthorized`;
        :class:`~gateway.errors.AuthUnavailable` where no credential can be had;
        :class:`~gateway.errors.AuditUnavailable` where the audit is required, and cannot be written.
        """
        if self.former is not None and self.former.owns(caller, tool):
            return await self.former.forward(caller, tool, arguments, extras, state, answer_started=answer_started)
        binding = tool.binding
        if (tries := self._credential.tries) is not None and not (tries.is_calm or await tries.admit(self._is_refused)):
            raise BackendUnavailable(_REFUSED_BEFORE, retry_after=math.ceil(tries.wait) or 1)
        parts = self._credential.parts or await self._credential.request_parts(caller)
        timeout = binding.timeout or self._timeout
        # The queue and the breaker count by it.
        key = binding.method if binding.endpoint is None else f"{binding.method} at {binding.endpoint}"
        attempts = Attempts(caller.key, key, timeout, self._budget, binding.repeatable)
        sending = _Sending(self._client, self._credential, caller, tool, extras, state, attempts, parts)
        shown = traces if (traces := tracing.active) is not None and traces.shows_content else None
        if shown is not None:
            shown.note_content("arguments", arguments)
        memory = RECORD.get().memory
        # A request for input is bound to the values.
        if memory.size > _LARGE and not tool.input_required and isinstance(arguments, dict):
            memory.shrink(memory.size - _serialize_members(arguments, binding.spread_argument))
        if (auditor := audit.active) is not None and auditor.required:
            await auditor.begin(RECORD.get())
        try:
            result = await self._param_structures.call_method(binding, arguments, sending.send, attempts.may_repeat)
            if shown is not None:
                shown.note_content("result", result)
            return result
        except (BackendBusy, BackendUnavailable) as fault:
            if fault.seen and attempts.may_have_run:
                fault.message = f"{fault.seen}; {EARLIER}"
            raise
        except ParamsRefused:
            self.after_params_refused()
            raise
        except BackendUnauthorized:
            error = self._unauthorized_error(caller, tool, answer_started)
            if tries is not None:
                await tries.doubt(self._is_refused)
            raise error from None

    async def retry_credential(self) -> None:
        """Ask again about a credential that the service refused, if the operator wants it."""
        if (tries := self._credential.tries) is not None:
            await tries.admit(self._is_refused)

    def _unauthorized_error(self, caller: Caller, tool: Tool, answer_started: bool) -> GatewayError:
        """Return the error for a backend's 401. Only where the caller's own token was sent can the caller repair it.
        The call is never repeated with another identity."""
        self._credential.discard_token(caller)
        if not self._credential.uses_callers_token:
            log.error("the backend does not accept the gateway's credential", method=tool.method)
            return BackendUnavailable("The backend does not accept the gateway's credential")
        if caller.principal is None:  # no token was sent, so the challenge names no error (RFC 6750 §3.1)
            error, message = None, "The backend requires a token for this call"
        else:
            error, message = "invalid_token", "The backend does not accept this token"
            log.error(
                "the conditions of same_resource do not hold: the backend refuses a token that was accepted here",
                method=tool.method,
                issuer=caller.principal.issuer,
            )
        if answer_started:
            return BackendUnauthorized(message)
        return Unauthorized(message, error=error)


class _Sending(Struct, eq=False):
    """Hold one call while it is sent. A closure would take twice the time: it needs a cell for each of these."""

    client: BackendClient
    credential: Credential
    caller: Caller
    tool: Tool
    extras: CallExtras | None
    state: RequestState | None
    attempts: Attempts
    parts: RequestParts

    async def send(self, params: ParamsValue) -> Any:
        """Return the service's result for these params, once it accepts the credential."""
        tool, extras = self.tool, self.extras
        binding = tool.binding
        if tool.input_required and extras is not None and not isinstance(params, list):
            params = {**(params or {}), **_input_members(tool, extras, self.state)}
        while True:
            try:
                as_written = not (tool.reads_results or binding.notification)
                return await self.client.call_method(binding, params, self.attempts, self.parts, as_written=as_written)
            except BackendUnauthorized:
                if not self.attempts.may_repeat(Reason.CREDENTIAL_REFUSED):
                    raise
                renewed = await self.credential.renew(self.caller, self.parts)
                if renewed is None:
                    raise
                self.parts = renewed


def _serialize_members(values: Any, spread: str | None) -> int:
    """Replace each object and array in the arguments by its JSON, so that its value is freed: all who have the
    arguments have this object. Of the argument ``spread`` the members are replaced, since they are what is sent. Return
    how many bytes less are taken."""
    freed = 0
    for key, value in values.items() if isinstance(values, dict) else enumerate(values):
        if not isinstance(value, dict | list):
            continue
        if key == spread:
            freed += _serialize_members(value, None)
        else:
            values[key] = jsonrpc.Raw(raw := jsonrpc.encode(value))
            # Texts do not count: they may have come with escapes, which count less than what they stand for.
            freed += value_cost(jsonrpc.without_texts(raw))
    return freed


def _input_members(tool: Tool, extras: CallExtras, state: RequestState | None) -> dict[str, Any]:
    """Return the params that a method with ``input_required`` gets beside its own, without the response to our own
    request for consent."""
    members: dict[str, Any] = {"clientCapabilities": extras.capabilities}
    responses = dict(extras.responses)
    if tool.confirm and state is not None and not state.consent:
        responses.pop(CONFIRM, None)
    if responses:
        members["inputResponses"] = responses
    if state is not None and state.backend is not None:
        members["requestState"] = state.backend
    return members
