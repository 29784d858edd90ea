"""One tool call from look-up to outcome: the only place that decides whether a call may run.

Every surface (MCP, REST, ``/jsonrpc``, the command line) uses :meth:`Invocation.prepare` and :meth:`Call.execute`. One
that can ask the client for input passes :class:`~gateway.model.CallExtras`; the others pass None.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, TypeAlias

import structlog
from msgspec import Struct

from gateway import jsonrpc
from gateway.auth.access import Access
from gateway.discovery.catalog_source import CatalogSource
from gateway.discovery.tool_search import BuiltinTool
from gateway.errors import (
    BackendError,
    CapabilityRequired,
    ConfirmationRequired,
    InputRequired,
    InsufficientScope,
    InvalidArguments,
    ResultMismatch,
    ToolFault,
    UnknownTool,
)
from gateway.invocation.forwarding import Forwarder
from gateway.invocation.input_requests import InputRequests, usable_extras
from gateway.jsonrpc import Raw
from gateway.limits import Budget, CallBudget, ConcurrencyLimit
from gateway.model import NO_RESULT, Caller, CallExtras, NameStyle, Outcome, Tool
from gateway.schema.repair import in_place, note_nulls, repair_arguments
from gateway.schema.validation import TOO_LARGE, Validator, ValidatorCache
from gateway.telemetry import audit
from gateway.telemetry.logs import to_gateway_error
from gateway.telemetry.record import RECORD, TOOL_ERROR
from gateway.text import excerpt

_FAULTS_SHOWN: Final = 3
_NO_HEADERS: Final[Mapping[str, str]] = {}
MAX_BROKEN_RESULT: Final = 64 * 1024
"""Bytes shown of a result that breaks its schema."""

Arguments: TypeAlias = Mapping[str, Any] | Callable[[Tool], Mapping[str, Any]]
"""A call's arguments, or a function that makes them for the tool that the client named, and raises for bad ones."""

log = structlog.get_logger()


class Call(Struct):
    """One call that may run; :meth:`Invocation.prepare` makes it. Call :meth:`execute` once.

    Where the client named ``call_tool``, ``tool`` is the tool that its arguments name. ``arguments`` are those of
    ``tool``. ``fault`` says why it will not be made, where that is known before :meth:`execute`. ``headers`` are for
    the response: they tell what the caller has left of its calls. ``is_valid`` says that ``arguments`` were checked,
    ``left_out`` which came as null and are not among them.
    """

    caller: Caller
    tool: Tool
    arguments: Mapping[str, Any]
    extras: CallExtras | None
    fault: ToolFault | None
    headers: Mapping[str, str]
    _execute: Callable[[Call, bool], Coroutine[Any, Any, Outcome]]
    is_valid: bool = False
    left_out: tuple[str, ...] = ()

    def execute(self, *, answer_started: bool = False) -> Coroutine[Any, Any, Outcome]:
        """Check the arguments, call the backend once, check the result. A failed call is the outcome's ``fault``.

        Raise :class:`~gateway.errors.Unauthorized` where the backend refuses the caller's own token, unless the answer
        has started: then that is a fault too; :class:`~gateway.errors.AuthUnavailable` where no credential can be had;
        :class:`~gateway.errors.InvalidParams` for a bad ``requestState``; :class:`~gateway.errors.MissingCapability`
        where the client cannot answer the backend's input requests; :class:`~gateway.errors.AuditUnavailable`.
        """
        return self._execute(self, answer_started)


@dataclass(kw_only=True, eq=False, repr=False)
class Invocation:
    """Prepare and run the tool calls of one service. A group has no ``forwarder``: each of its calls goes through the
    door of its service. ``name_style`` is that of tool names where the caller chose none."""

    discovery: CatalogSource
    validators: ValidatorCache
    input_requests: InputRequests
    access: Access
    budget: CallBudget
    listings: Budget
    concurrency: ConcurrencyLimit
    builtin: Mapping[str, BuiltinTool]
    name_style: NameStyle
    forwarder: Forwarder = field(init=False)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {getattr(self, 'forwarder', None)!r}>"

    def at_group(self, access: Access, input_requests: InputRequests) -> Invocation:
        """Return the same for callers of a group, which names scopes, signs states and searches by itself."""
        vars(other := copy(self)).update(access=access, input_requests=input_requests, builtin={})
        return other

    async def find_tool(self, caller: Caller, name: str, patience: float | None = None) -> Tool:
        """Return a tool of the caller's view by its name or its method's. ``patience`` is the longest wait in seconds
        where no listing is cached. Raise :class:`UnknownTool`, :class:`~gateway.errors.CatalogUnavailable`."""
        if (builtin := self.builtin.get(name)) and await builtin.is_offered(caller):
            return builtin.tool
        tool = await self.discovery.find_tool(caller, name, patience)
        if tool is None:
            raise await self._unknown_tool(caller, name)
        return tool

    async def _unknown_tool(self, caller: Caller, name: str) -> UnknownTool:
        """Return the error, which names the nearest tool that the caller may see."""
        meant = ""
        with suppress(InsufficientScope):  # a caller who may not list is told no name
            self.access.check_list(caller)
            visible = self.access.visible_catalog(caller, await self.discovery.catalog(caller))
            meant = visible.nearest_name(name, caller.name_style or self.name_style)
        return UnknownTool(f"Unknown tool: {excerpt(name, 128)}{meant}")

    async def prepare(
        self,
        caller: Caller,
        name: str,
        arguments: Arguments,
        extras: CallExtras | None = None,
        *,
        as_sent: bool = False,
    ) -> Call:
        """Find a tool in the caller's view and decide whether this call may start, before any byte of the answer.
        A tool that ``call_tool`` names gets the same decisions as if it were called directly. The call counts against
        the caller's limits. Where nothing is left of them, the arguments are not read and the call has a fault.
        Unless they count ``as_sent``, arguments that the tool refuses may be repaired (:mod:`gateway.schema.repair`),
        and whole numbers become integers (:mod:`gateway.schema.whole_numbers`).

        Raise as :meth:`find_tool` and ``arguments`` do; :class:`~gateway.errors.RateLimited` where it would list the
        caller's tools too often; :class:`~gateway.errors.Unauthorized` and :class:`~gateway.errors.InsufficientScope`
        with all scopes that the call needs; :class:`~gateway.errors.MissingCapability` for what the client lacks.
        """
        record = RECORD.get()
        record.tool = name  # also where there is no such tool
        builtin = self.builtin.get(name)
        tool = builtin.tool if builtin else self.discovery.find_fresh_tool(caller, name)
        if (tool is None or builtin is not None) and self.discovery.would_list(caller):
            await self.listings.spend(caller)  # as if the caller asked for it: views are many, by tokens' scopes
        if builtin is not None and not await builtin.is_offered(caller):
            builtin = tool = None
        tool = tool or await self.discovery.find_tool(caller, name)
        if tool is None:
            raise await self._unknown_tool(caller, name)
        record.tool = tool.name
        if self.access.enabled and (builtin is None or not builtin.calls_named):
            # Before the arguments: their faults describe the tool.
            self.access.check_call(caller, tool, lists=builtin is not None)
        state = None if extras is None else extras.state  # whose it is, is only known with the arguments
        quota = None
        if state is None:
            quota = await self.budget.spend(caller, tool)
            if quota.wait:
                return Call(caller, tool, {}, extras, quota.fault, quota.headers, self._execute)
        target, call_arguments = tool, arguments(tool) if callable(arguments) else arguments
        if builtin is not None:
            target, call_arguments = await self._target(caller, builtin, call_arguments, as_sent)
            record.tool = target.name
        left_out: tuple[str, ...] = ()
        # Before anything is bound to the arguments: a consent, a request's state, a line of the audit.
        validator = self.validators.compile_tool(target.digest, target.checked_schema)
        is_valid = validator.is_valid(call_arguments)
        if not as_sent and (not is_valid or validator.integers_in(call_arguments) is not None):
            call_arguments, is_valid, left_out = await self._repaired(
                target, call_arguments, validator, is_valid=is_valid
            )
        if state is not None and not await self.input_requests.is_first_answer(state, caller, target, call_arguments):
            quota = await self.budget.spend(caller, target)
        elif quota is not None and target is not tool:
            quota = await self.budget.spend_tool(caller, target) or quota
        if extras is not None and not target.is_plain:
            extras = usable_extras(target, extras)
        fault = quota.fault if quota is not None and quota.wait else None
        record.ran = fault is None
        headers = _NO_HEADERS if quota is None else quota.headers
        return Call(caller, target, call_arguments, extras, fault, headers, self._execute, is_valid, left_out)

    async def _repaired(
        self, tool: Tool, arguments: Mapping[str, Any], validator: Validator, *, is_valid: bool
    ) -> tuple[Mapping[str, Any], bool, tuple[str, ...]]:
        """Return the arguments as they are sent, whether they are valid, and which are left out."""
        left_out: tuple[str, ...] = ()
        record = RECORD.get()
        if not is_valid:
            repaired = repair_arguments(tool, arguments, self.validators, record.memory.take)
            if repaired is None:
                return arguments, False, left_out
            left_out = tuple(name for name in arguments if name not in repaired[0])
            arguments = in_place(arguments, repaired[0])
            record.coerced += repaired[1]
        if (integers := validator.integers_in(arguments)) is not None:
            await integers.write_whole(arguments)
        return arguments, True, left_out

    async def preview(self, caller: Caller, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the faults of a call's arguments, or the method and params that it would send, before credentials. It
        is never sent, but counts against the caller's limits. Raise as :meth:`prepare` does; :class:`ToolFault`."""
        call = await self.prepare(caller, name, jsonrpc.decode(jsonrpc.encode(arguments)))  # they stay as they came
        RECORD.get().ran = False
        if call.fault is not None:
            raise call.fault
        try:
            if not call.is_valid:
                self._refuse_arguments(call.tool, call.arguments)
            method, params = self.forwarder.method_and_params(call.tool, call.arguments)
        except InvalidArguments as fault:
            return {"faults": fault.data["faults"] if isinstance(fault.data, dict) else [fault.message]}
        return {"method": method, "params": params}

    async def _target(
        self, caller: Caller, builtin: BuiltinTool, arguments: Mapping[str, Any], as_sent: bool
    ) -> tuple[Tool, Mapping[str, Any]]:
        """Return the tool that a call of a built-in tool calls, and its arguments."""
        name, given = self._named(builtin, arguments, as_sent)
        if not builtin.calls_named:
            return builtin.tool, given
        named = None if name is None else await self.discovery.find_tool(caller, name)
        if self.access.enabled:
            self.access.check_call(caller, named or builtin.tool)
        if named is None:
            return builtin.tool, given
        log.info("tool called through call_tool", tool=named.name, method=named.method)
        return named, given.get("arguments", {})

    def _named(
        self, builtin: BuiltinTool, arguments: Mapping[str, Any], as_sent: bool
    ) -> tuple[str | None, Mapping[str, Any]]:
        """Return the name that a built-in tool is to call, None where it calls none, and what it was given."""
        tool, record = builtin.tool, RECORD.get()
        # Models send null for nothing, and some the arguments of the tool that they call as a text.
        given: Mapping[str, Any] = {name: value for name, value in arguments.items() if value is not None}
        if builtin.calls_named and not as_sent:
            given, record.coerced = repair_arguments(tool, given, self.validators, record.memory.take) or (given, 0)
        schema = self.validators.compile_tool(tool.digest, tool.checked_schema)
        return given["name"] if builtin.calls_named and schema.is_valid(given) else None, given

    async def _execute(self, call: Call, answer_started: bool) -> Outcome:
        # One coroutine for all that most calls need: each more of them is resumed, too, when the answer arrives.
        tool, refusal, held = call.tool, call.fault, None
        if refusal is not None:
            return _noted(Outcome(tool, fault=refusal))
        if (auditor := audit.active) is not None:
            auditor.note_call(RECORD.get(), tool.method, call.arguments, tool.binding.audited)
        try:
            try:
                held = self.concurrency.begin_call(call.caller)
                if not call.is_valid:
                    self._refuse_arguments(tool, call.arguments)
                if not tool.is_plain:
                    return _noted(await self._make_special_call(call, answer_started))
                value = await self.forwarder.forward(
                    call.caller, tool, call.arguments, call.extras, None, answer_started=answer_started
                )
                self._check_result(tool, value)
                return Outcome(tool, value)
            except ToolFault as fault:
                if isinstance(fault, BackendError):
                    fault.message += note_nulls(tool, call.left_out)
                if isinstance(fault, ResultMismatch):  # later listings show the tool without the schema
                    await self.discovery.drop_output_schema(tool)
                return _noted(Outcome(tool, fault=fault))
        except Exception as error:
            failure = to_gateway_error(error, tool=tool.name)
            RECORD.get().note_outcome(failure.slug)
            if failure is error:
                raise
            raise failure from None
        finally:
            if held is not None:
                self.concurrency.end(held)

    async def _make_special_call(self, call: Call, answer_started: bool) -> Outcome:
        """Make a call of a tool that is not plain. Raise :class:`ToolFault`."""
        tool, extras = call.tool, call.extras
        if tool.binding.is_builtin:
            return Outcome(tool, await self.builtin[tool.name].handler(call.caller, call.arguments))
        state = None
        if extras is not None and extras.state is not None and (tool.confirm or tool.input_required):
            state = self.input_requests.read_state(extras.state, call.caller, tool, call.arguments)
        if extras is None:
            _check_surface(tool)
        elif tool.confirm:
            request = await self.input_requests.request_consent(extras, state, call.caller, tool, call.arguments)
            if request is not None:
                return Outcome(tool, input_request=request)
            RECORD.get().consent = time.time()
        value = await self.forwarder.forward(
            call.caller, tool, call.arguments, extras, state, answer_started=answer_started
        )
        if tool.input_required and isinstance(value, dict) and value.get("resultType") == "input_required":
            if extras is None:
                raise InputRequired(_needs_elicitation("This method asks for input"))
            request = self.input_requests.request_input(value, extras, call.caller, tool, call.arguments)
            return Outcome(tool, input_request=request)
        self._check_result(tool, value)
        return Outcome(tool, value)

    def _refuse_arguments(self, tool: Tool, arguments: Mapping[str, Any]) -> NoReturn:
        faults = self.validators.compile_tool(tool.digest, tool.checked_schema).faults(arguments)
        raise InvalidArguments("Invalid arguments: " + "; ".join(faults), data={"faults": faults})

    def _check_result(self, tool: Tool, value: Any) -> None:
        schema = tool.result_schema
        if schema is None or value is NO_RESULT:
            return
        full_result = value
        if tool.returns_blocks:
            result = value if isinstance(value, dict) else {}
            if result.get("isError") is True:
                return
            if "structuredContent" not in result:
                raise _mismatch("it lacks the declared structuredContent", value)
            value = result["structuredContent"]
        if type(value) is Raw:  # only where the schema says no more than a type
            value = {} if bytes(value).startswith(b"{") else []
        validator = self.validators.compile_tool(tool.result_digest, schema)
        if not validator.is_valid(value):
            faults = validator.faults(jsonrpc.decode(full_result) if type(full_result) is Raw else value)
            if faults == [TOO_LARGE]:
                return  # too costly to check, which is not a fault of the result
            raise _mismatch("; ".join(faults[:_FAULTS_SHOWN]), full_result)


def _noted(outcome: Outcome) -> Outcome:
    """Return an outcome, and note why it is no success."""
    if outcome.fault is not None:
        RECORD.get().note_outcome(outcome.fault.slug)
    elif outcome.input_request is not None:
        RECORD.get().note_outcome(InputRequired.slug)
    elif outcome.tool.returns_blocks and isinstance(outcome.value, dict) and outcome.value.get("isError") is True:
        RECORD.get().note_outcome(TOOL_ERROR)
    return outcome


def _mismatch(faults: str, result: Any) -> ResultMismatch:
    """Return the fault of a result that breaks its schema, with the result: a repeated call could have effects."""
    text = result if isinstance(result, str) else jsonrpc.encode(result).decode()
    said = f"The call ran; its result breaks the listed output schema: {faults}"
    return ResultMismatch(f"{said}\n\n{excerpt(text, MAX_BROKEN_RESULT)}")


def _check_surface(tool: Tool) -> None:
    """Raise for a tool that needs :class:`~gateway.model.CallExtras`, on a surface that has none."""
    if tool.confirm:
        raise ConfirmationRequired(_needs_elicitation("This tool needs a person's consent"))
    if tool.requires:
        names = ", ".join(sorted(tool.requires))
        raise CapabilityRequired(f"This tool needs an MCP client that declares the capability {names}")


def _needs_elicitation(what: str) -> str:
    return f"{what}. That takes an MCP client that declares the capability elicitation and accepts text/event-stream"
