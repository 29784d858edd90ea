"""One tool call from look-up to outcome: the only place that decides whether a call may run.

Every surface (MCP, REST, ``/jsonrpc``, the command line) uses :meth:`Invocation.prepare` and :meth:`Call.execute`, so
the decisions are the same on each. A surface that can ask the client for input passes
:class:`~gateway.model.CallExtras`; the others pass None.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import structlog

from gateway import jsonrpc
from gateway.auth.access import Access
from gateway.backend.client import BackendClient
from gateway.backend.params import ParamStructures, ParamsValue
from gateway.backend.request_parts import RequestParts
from gateway.credentials import Credential
from gateway.discovery.discovery import Discovery
from gateway.errors import (
    BackendUnauthorized,
    BackendUnavailable,
    CapabilityRequired,
    ConfirmationRequired,
    GatewayError,
    InputRequired,
    InvalidArguments,
    ResultMismatch,
    ToolFault,
    Unauthorized,
    UnknownTool,
)
from gateway.invocation.input_requests import CONFIRM, InputRequests, RequestState, require_capabilities
from gateway.model import NO_RESULT, Caller, CallExtras, NameStyle, Outcome, Tool
from gateway.schema.validation import TOO_LARGE, ValidatorCache
from gateway.search.tools import BuiltinTool
from gateway.telemetry.internal_errors import to_gateway_error
from gateway.text import excerpt, masked_url

_LEAST_TIMEOUT: Final = 0.001
_FAULTS_SHOWN: Final = 3
MAX_BROKEN_RESULT: Final = 64 * 1024
"""Bytes shown of a result that breaks its schema."""

Arguments: TypeAlias = Mapping[str, Any] | Callable[[Tool], Mapping[str, Any]]
"""A call's arguments, or a function that makes them for the tool that the client named, and raises for bad ones."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Call:
    """One call that may run; :meth:`Invocation.prepare` makes it. Call :meth:`execute` once.

    Where the client named ``call_tool``, ``tool`` is the tool that its arguments name. ``arguments`` are those of
    ``tool``.
    """

    caller: Caller
    tool: Tool
    arguments: Mapping[str, Any]
    extras: CallExtras | None
    _send: Callable[[Call, bool], Awaitable[Outcome]] = field(repr=False)

    async def execute(self, *, answer_started: bool = False) -> Outcome:
        """Check the arguments, call the backend once, check the result.

        Return a failure of the call itself as the outcome's ``fault``. Raise :class:`~gateway.errors.Unauthorized`
        where the backend refuses the caller's own token, unless the answer has started: then that is a fault too. Raise
        :class:`~gateway.errors.AuthUnavailable` where no credential can be obtained;
        :class:`~gateway.errors.InvalidParams` for a bad ``requestState``; :class:`~gateway.errors.MissingCapability`
        where the client cannot answer the backend's input requests.
        """
        try:
            return await self._send(self, answer_started)
        except GatewayError:
            raise
        except Exception as error:  # noqa: BLE001, logged here: the call may outlive its client
            raise to_gateway_error(error, tool=self.tool.name) from None


class Invocation:
    """Prepare and run the tool calls of one service. ``timeout`` is in seconds."""

    def __init__(
        self,
        discovery: Discovery,
        client: BackendClient,
        credential: Credential,
        validators: ValidatorCache,
        param_structures: ParamStructures,
        input_requests: InputRequests,
        access: Access,
        builtin: Mapping[str, BuiltinTool],
        name_style: NameStyle,
        timeout: float,
    ) -> None:
        self._discovery = discovery
        self._client = client
        self._credential = credential
        self._validators = validators
        self._param_structures = param_structures
        self._input_requests = input_requests
        self._access = access
        self._builtin = builtin
        self.name_style = name_style
        """The style of tool names where the caller chose none."""
        self._timeout = timeout

    def __repr__(self) -> str:
        url, credential = masked_url(self._client.url), type(self._credential).__name__
        return f"<Invocation of {url} with {credential}, {self._timeout:g} s>"

    async def find_tool(self, caller: Caller, name: str, patience: float | None = None) -> Tool:
        """Return a tool of the caller's view by its name or its method's. ``patience`` is the longest wait in seconds
        where no listing is cached. Raise :class:`UnknownTool`, :class:`~gateway.errors.CatalogUnavailable`."""
        builtin = self._builtin.get(name)
        tool = builtin.tool if builtin else await self._discovery.find_tool(caller, name, patience)
        if tool is None:
            raise UnknownTool(f"Unknown tool: {name[:128]}")
        return tool

    async def prepare(self, caller: Caller, name: str, arguments: Arguments, extras: CallExtras | None = None) -> Call:
        """Find a tool in the caller's view and decide whether this call may start, before any byte of the answer.
        A tool that ``call_tool`` names gets the same decisions as if it were called directly.

        Raise as :meth:`find_tool` does, and as ``arguments`` does where it is a function;
        :class:`~gateway.errors.Unauthorized` and :class:`~gateway.errors.InsufficientScope` with all scopes that the
        call needs; :class:`~gateway.errors.MissingCapability` where the client lacks what the tool needs.
        """
        tool = await self.find_tool(caller, name)
        builtin = self._builtin[tool.name] if tool.binding.is_builtin else None
        if builtin is None or not builtin.calls_named:  # before the arguments: their faults describe the tool
            self._access.check_call(caller, tool, lists=builtin is not None and builtin.lists)
        call_arguments = arguments(tool) if callable(arguments) else arguments
        if builtin is not None:
            # Models send null for what they leave out.
            call_arguments = {name: value for name, value in call_arguments.items() if value is not None}
        if builtin is not None and builtin.calls_named:
            named = await self._tool_named_in(caller, tool, call_arguments)
            if named is not None:
                tool, call_arguments = named, call_arguments.get("arguments", {})
            self._access.check_call(caller, tool)
            if named is not None:
                log.info("tool called through call_tool", tool=tool.name, method=tool.method)
        if extras is not None and (tool.requires or tool.confirm):
            require_capabilities({**tool.requires, "elicitation": {}} if tool.confirm else tool.requires, extras)
        return Call(caller, tool, call_arguments, extras, self._execute)

    async def _tool_named_in(self, caller: Caller, tool: Tool, arguments: Mapping[str, Any]) -> Tool | None:
        """Return the tool that valid arguments of the built-in ``tool`` name; None for none, or for bad arguments."""
        validator = self._validators.compile_tool(tool.digest, tool.checked_schema)
        return await self._discovery.find_tool(caller, arguments["name"]) if validator.is_valid(arguments) else None

    async def _execute(self, call: Call, answer_started: bool) -> Outcome:
        tool, extras = call.tool, call.extras
        try:
            self._check_arguments(tool, call.arguments)
            if tool.binding.is_builtin:
                return Outcome(tool, await self._builtin[tool.name].handler(call.caller, call.arguments))
            state = self._request_state(call)
            if extras is None:
                _check_surface(tool)
            elif tool.confirm:
                request = await self._input_requests.request_consent(extras, state, call.caller, tool, call.arguments)
                if request is not None:
                    return Outcome(tool, input_request=request)
            value = await self._forward(call, state, answer_started)
            if tool.input_required and isinstance(value, dict) and value.get("resultType") == "input_required":
                if extras is None:
                    raise InputRequired("This method asks for input, which only clients of MCP 2026-07-28 can give")
                request = self._input_requests.request_input(value, extras, call.caller, tool, call.arguments)
                return Outcome(tool, input_request=request)
            self._check_result(tool, value)
        except ResultMismatch as fault:  # later listings show the tool without a schema that its results break
            await self._discovery.drop_output_schema(tool)
            return Outcome(tool, fault=fault)
        except ToolFault as fault:
            return Outcome(tool, fault=fault)
        return Outcome(tool, value)

    def _request_state(self, call: Call) -> RequestState | None:
        """Return the verified state of an earlier round. Raise :class:`~gateway.errors.InvalidParams`."""
        tool, extras = call.tool, call.extras
        if extras is None or extras.state is None or not (tool.confirm or tool.input_required):
            return None
        return self._input_requests.read_state(extras.state, call.caller, tool, call.arguments)

    def _check_arguments(self, tool: Tool, arguments: Mapping[str, Any]) -> None:
        validator = self._validators.compile_tool(tool.digest, tool.checked_schema)
        if not validator.is_valid(arguments):
            faults = validator.faults(arguments)
            raise InvalidArguments("Invalid arguments: " + "; ".join(faults), data={"faults": faults})

    async def _forward(self, call: Call, state: RequestState | None, answer_started: bool) -> Any:
        tool, extras, binding = call.tool, call.extras, call.tool.binding
        parts = await self._credential.request_parts(call.caller)
        trace = extras.trace if extras is not None else {}
        exchange = self._client.send_notification if binding.notification else self._client.call_method
        timeout = binding.timeout or self._timeout
        deadline: float | None = None
        renewed = False

        async def send_once(params: ParamsValue, parts: RequestParts) -> Any:
            nonlocal deadline
            now = time.monotonic()
            # The first try gets the same number at each call, by which the transport finds its time-out object.
            remaining = timeout if deadline is None else max(_LEAST_TIMEOUT, deadline - now)
            deadline = deadline or now + timeout
            return await exchange(
                binding.method,
                params,
                parts=replace(parts, headers={**trace, **parts.headers}) if trace else parts,  # the credential's win
                endpoint=binding.endpoint,
                timeout=remaining,
                version=binding.version,
            )

        async def send(params: ParamsValue) -> Any:
            nonlocal parts, renewed
            if tool.input_required and extras is not None and not isinstance(params, list):
                params = {**(params or {}), **_input_members(tool, extras, state)}
            try:
                return await send_once(params, parts)
            except BackendUnauthorized:
                other = None if renewed else await self._credential.renew(call.caller, parts)
                if other is None:
                    raise
                parts, renewed = other, True
            return await send_once(params, parts)

        try:
            return await self._param_structures.call_method(binding, call.arguments, send)
        except BackendUnauthorized:
            raise self._unauthorized_error(call, answer_started) from None

    def _unauthorized_error(self, call: Call, answer_started: bool) -> GatewayError:
        """Return the error for a backend's 401. Only where the caller's own token was sent can the caller repair it.
        The call is never repeated with another identity."""
        caller, method = call.caller, call.tool.method
        self._credential.discard_token(caller)
        if not self._credential.uses_callers_token:
            log.error("the backend does not accept the gateway's credential", method=method)
            return BackendUnavailable("The backend does not accept the gateway's credential")
        if caller.principal is None:  # no token was sent, so the challenge names no error (RFC 6750 §3.1)
            error, message = None, "The backend requires a token for this call"
        else:
            error, message = "invalid_token", "The backend does not accept this token"
            log.error(
                "the conditions of same_resource do not hold: the backend refuses a token that was accepted here",
                method=method,
                issuer=caller.principal.issuer,
            )
        if answer_started:
            return BackendUnauthorized(message)
        return Unauthorized(message, error=error, scopes=self._access.baseline_scopes)

    def _check_result(self, tool: Tool, value: Any) -> None:
        if tool.output_schema is None or isinstance(tool.output_schema, bool) or value is NO_RESULT:
            return
        full_result = value
        if tool.returns_blocks:
            result = value if isinstance(value, dict) else {}
            if result.get("isError") is True:
                return
            if "structuredContent" not in result:
                raise _mismatch("it lacks the declared structuredContent", value)
            value = result["structuredContent"]
        validator = self._validators.compile_tool(tool.digest + ":out", tool.output_check or tool.output_schema)
        if not validator.is_valid(value):
            faults = validator.faults(value)
            if faults == [TOO_LARGE]:
                return  # too costly to check, which is not a fault of the result
            raise _mismatch("; ".join(faults[:_FAULTS_SHOWN]), full_result)


def _mismatch(faults: str, result: Any) -> ResultMismatch:
    """Return the fault of a result that breaks its schema. It includes the result: the call may have had effects, so
    the client should not have to repeat it to see the result."""
    text = result if isinstance(result, str) else jsonrpc.encode(result).decode()
    return ResultMismatch(
        f"The call ran; its result breaks the listed output schema: {faults}\n\n{excerpt(text, MAX_BROKEN_RESULT)}"
    )


def _check_surface(tool: Tool) -> None:
    """Raise for a tool that needs :class:`~gateway.model.CallExtras`, on a surface that has none."""
    if tool.confirm:
        raise ConfirmationRequired(
            "This tool needs a person's consent, which only clients of MCP 2026-07-28 can ask for"
        )
    if tool.requires:
        names = ", ".join(sorted(tool.requires))
        raise CapabilityRequired(f"This tool needs a client of MCP 2026-07-28 that declares the capability {names}")


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
