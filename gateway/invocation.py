"""One tool call from look-up to outcome: the only place that decides whether a call may run.

Every surface (MCP, REST, the command line) comes through here and gets the same decisions. A surface that can pass
questions on to a person brings :class:`~gateway.model.CallExtras`; the others have none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import structlog

from gateway.auth.access import Access
from gateway.backend.client import BackendClient
from gateway.backend.params import Params
from gateway.backend.shapes import Shapes
from gateway.catalog.discovery import Discovery
from gateway.catalog.search import DEFAULT_LIMIT, OWN, SEARCH_TOOLS, Search
from gateway.catalog.validation import TOO_LARGE, Validators
from gateway.credentials import Credential
from gateway.errors import (
    BackendUnauthorized,
    BackendUnavailable,
    BackendWantsToken,
    CapabilityRequired,
    ConfirmationRequired,
    InputRequired,
    InvalidArguments,
    ResultMismatch,
    ToolFault,
    Unauthorized,
    UnknownTool,
)
from gateway.model import NOTHING, Caller, CallExtras, Naming, Outcome, Tool
from gateway.rounds import CONFIRM, Rounds, State, require
from gateway.settings import CatalogSettings

_LEAST_TIMEOUT: Final = 0.001

log = structlog.get_logger()


class Invocation:
    def __init__(
        self,
        discovery: Discovery,
        client: BackendClient,
        credential: Credential,
        validators: Validators,
        shapes: Shapes,
        rounds: Rounds,
        access: Access,
        search: Search,
        settings: Callable[[], CatalogSettings],
        timeout: Callable[[], float],
    ) -> None:
        self._discovery = discovery
        self._client = client
        self._credential = credential
        self._validators = validators
        self._shapes = shapes
        self._rounds = rounds
        self._access = access
        self._search = search
        self._settings = settings
        self._timeout = timeout

    def naming(self, caller: Caller) -> Naming:
        """Which names of tools a model is shown: those that the caller chose, else the operator's choice."""
        return caller.naming or Naming(self._settings().names)

    async def find(self, caller: Caller, name: str, patience: float | None = None) -> Tool:
        """The tool in the caller's view, by its name or its method's; ``patience`` is the longest wait in seconds for a
        listing where there is none at hand. Raises :class:`UnknownTool`,
        :class:`~gateway.errors.CatalogUnavailable`."""
        tool = OWN.get(name) if self._settings().search else None
        tool = tool or await self._discovery.find(caller, name, patience)
        if tool is None:
            raise UnknownTool(f"Unknown tool: {name[:128]}")
        return tool

    def admit(self, caller: Caller, tool: Tool, extras: CallExtras | None) -> None:
        """Whether a call may start, decided before a byte of the answer.

        Raises :class:`~gateway.errors.Unauthorized` and :class:`~gateway.errors.InsufficientScope` with all scopes that
        the call takes, :class:`~gateway.errors.MissingCapability` where the client cannot do what the tool needs.
        """
        self._access.check_call(caller, tool)
        if extras is not None and (tool.requires or tool.confirm):
            require({**tool.requires, "elicitation": {}} if tool.confirm else tool.requires, extras)

    async def call(self, caller: Caller, name: str, arguments: Mapping[str, Any]) -> Outcome:
        """Raises as :meth:`find` does; every failure of the call itself is the outcome's fault."""
        return await self.run(caller, await self.find(caller, name), arguments)

    async def run(
        self, caller: Caller, tool: Tool, arguments: Mapping[str, Any], extras: CallExtras | None = None
    ) -> Outcome:
        """Check the arguments, call the backend once, check the result.

        Raises as :meth:`admit` does, so that no surface can forget to ask; :class:`~gateway.errors.InvalidParams` for a
        bad state of an earlier round; and :class:`~gateway.errors.MissingCapability` where the backend's questions are
        beyond the client.
        """
        self.admit(caller, tool, extras)
        if tool.binding.local:
            return await self._run_own(caller, tool, arguments, extras)
        try:
            self._check_arguments(tool, arguments)
            state: State | None = None
            if extras is not None and extras.state is not None and (tool.confirm or tool.rounds):
                state = self._rounds.read(extras.state, caller, tool, arguments)
            if extras is None:
                _check_surface(tool)
            elif tool.confirm:
                ask = await self._rounds.consent(extras, state, caller, tool, arguments)
                if ask is not None:
                    return Outcome(tool, ask=ask)
            value = await self._forward(caller, tool, arguments, extras, state)
            if tool.rounds and isinstance(value, dict) and value.get("resultType") == "input_required":
                if extras is None:
                    raise InputRequired("This method asks for more input, which takes a client of MCP 2026-07-28")
                return Outcome(tool, ask=self._rounds.ask(value, extras, caller, tool, arguments))
            self._check_result(tool, value)
        except ResultMismatch as fault:
            await self._discovery.distrust_output(tool)
            return Outcome(tool, fault=fault)
        except ToolFault as fault:
            return Outcome(tool, fault=fault)
        return Outcome(tool, value)

    def refuse(self, outcome: Outcome) -> None:
        """For surfaces that have sent nothing yet: a token that the backend refuses is refused here as well, and a
        caller without one is told where to get it. Raises :class:`~gateway.errors.Unauthorized`."""
        if isinstance(outcome.fault, BackendUnauthorized):
            error = None if isinstance(outcome.fault, BackendWantsToken) else "invalid_token"
            raise Unauthorized(outcome.fault.message, error=error, scopes=self._access.baseline)

    async def _run_own(
        self, caller: Caller, tool: Tool, arguments: Mapping[str, Any], extras: CallExtras | None
    ) -> Outcome:
        """Tool search. What ``call_tool`` names runs as if it had been called itself, and the outcome is its own."""
        arguments = {name: value for name, value in arguments.items() if value is not None}  # null is as left out
        try:
            self._check_arguments(tool, arguments)
        except InvalidArguments as fault:
            return Outcome(tool, fault=fault)
        if tool is SEARCH_TOOLS:
            limit = int(arguments.get("limit", DEFAULT_LIMIT))
            catalog = self._access.visible(caller, await self._discovery.catalog(caller))
            found = await self._search.answer(catalog, arguments["query"], limit, self.naming(caller))
            return Outcome(tool, found)
        name = arguments["name"]
        called = await self._discovery.find(caller, name)
        if called is None:
            return Outcome(
                tool, fault=InvalidArguments(f"There is no tool {name[:128]}; search_tools finds those there are")
            )
        log.info("tool called through call_tool", tool=called.name, method=called.method)
        return await self.run(caller, called, arguments.get("arguments", {}), extras)

    def _check_arguments(self, tool: Tool, arguments: Mapping[str, Any]) -> None:
        validator = self._validators.compile_tool(tool.digest, tool.checked_schema)
        if not validator.is_valid(arguments):
            faults = validator.faults(arguments)
            raise InvalidArguments("Invalid arguments: " + "; ".join(faults), data={"faults": faults})

    async def _forward(
        self,
        caller: Caller,
        tool: Tool,
        arguments: Mapping[str, Any],
        extras: CallExtras | None,
        state: State | None,
    ) -> Any:
        binding = tool.binding
        headers = await self._credential.headers(caller)
        if extras is not None and extras.trace:
            headers = {**extras.trace, **headers}
        call = self._client.notify if binding.notification else self._client.call
        timeout = binding.timeout or self._timeout()
        deadline: float | None = None

        async def send(params: Params) -> Any:
            if tool.rounds and extras is not None and not isinstance(params, list):
                params = {**(params or {}), **_round_members(tool, extras, state)}
            nonlocal deadline
            now = time.monotonic()
            # The first try has all of the time, a number that the transport knows from the call before.
            left = timeout if deadline is None else max(_LEAST_TIMEOUT, deadline - now)
            deadline = deadline or now + timeout
            return await call(binding.method, params, headers=headers, endpoint=binding.endpoint, timeout=left)

        try:
            return await self._shapes.call(binding, arguments, send)
        except BackendUnauthorized:
            raise self._unauthorized(caller, tool) from None

    def _unauthorized(self, caller: Caller, tool: Tool) -> ToolFault:
        """What a backend's 401 means: the caller's to mend only where its own token was shown. Nothing is tried again
        with another identity."""
        self._credential.refused(caller)
        if not self._credential.callers_own:
            log.error("the backend does not accept the gateway's credential", method=tool.method)
            return BackendUnavailable("The backend does not accept the gateway's credential")
        if caller.principal is None:
            return BackendWantsToken("The backend wants to know who calls this")
        log.error(
            "the conditions of same_resource do not hold: the backend refuses a token that was accepted here",
            method=tool.method,
            issuer=caller.principal.issuer,
        )
        return BackendUnauthorized("The backend does not accept this token")

    def _check_result(self, tool: Tool, value: Any) -> None:
        if tool.output_schema is None or isinstance(tool.output_schema, bool) or value is NOTHING:
            return
        if tool.blocks:
            result = value if isinstance(value, dict) else {}
            if result.get("isError") is True:
                return
            if "structuredContent" not in result:
                raise ResultMismatch("The call ran, but its result lacks the structuredContent that the tool declares")
            value = result["structuredContent"]
        validator = self._validators.compile_tool(tool.digest + ":out", tool.output_check or tool.output_schema)
        if not validator.is_valid(value):
            faults = validator.faults(value)
            if faults == [TOO_LARGE]:
                return  # the call ran, and nothing is known against its result
            shown = "; ".join(faults[:3])
            raise ResultMismatch(f"The call ran, but its result breaks the tool's output schema: {shown}")


def _check_surface(tool: Tool) -> None:
    """What a tool takes that nobody can give who brings no :class:`~gateway.model.CallExtras`."""
    if tool.confirm:
        raise ConfirmationRequired("This tool needs a person's consent, which takes a client of MCP 2026-07-28")
    if tool.requires:
        names = ", ".join(sorted(tool.requires))
        raise CapabilityRequired(f"This tool needs a client of MCP 2026-07-28 that declares the capability {names}")


def _round_members(tool: Tool, extras: CallExtras, state: State | None) -> dict[str, Any]:
    """What a method that asks back gets besides its own params. The answer to our own question is not its business."""
    members: dict[str, Any] = {"clientCapabilities": extras.capabilities}
    responses = dict(extras.responses)
    if tool.confirm and state is not None and not state.consent:
        responses.pop(CONFIRM, None)
    if responses:
        members["inputResponses"] = responses
    if state is not None and state.backend is not None:
        members["requestState"] = state.backend
    return members
