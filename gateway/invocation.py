"""One tool call from look-up to outcome: the only place that decides whether a call may run.

Every surface (MCP, REST, the command line) comes through here and gets the same decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gateway.backend.client import BackendClient
from gateway.backend.params import Conventions, to_params
from gateway.catalog.discovery import Discovery
from gateway.catalog.validation import Validators
from gateway.credentials import Credential
from gateway.errors import InvalidArguments, ResultMismatch, ToolFault, UnknownTool
from gateway.model import NOTHING, Caller, Outcome, Tool


class Invocation:
    def __init__(
        self,
        discovery: Discovery,
        client: BackendClient,
        credential: Credential,
        validators: Validators,
        conventions: Conventions,
        timeout: Callable[[], float],
    ) -> None:
        self._discovery = discovery
        self._client = client
        self._credential = credential
        self._validators = validators
        self._conventions = conventions
        self._timeout = timeout

    async def find(self, caller: Caller, name: str) -> Tool:
        """The tool in the caller's view, by its name or its method's. Raises :class:`UnknownTool`,
        :class:`~gateway.errors.CatalogUnavailable`."""
        tool = (await self._discovery.catalog(caller)).find(name)
        if tool is None:
            raise UnknownTool(f"Unknown tool: {name[:128]}")
        return tool

    async def call(self, caller: Caller, name: str, arguments: Mapping[str, Any]) -> Outcome:
        """Raises as :meth:`find` does; every failure of the call itself is the outcome's fault."""
        return await self.run(caller, await self.find(caller, name), arguments)

    async def run(self, caller: Caller, tool: Tool, arguments: Mapping[str, Any]) -> Outcome:
        """Check the arguments, call the backend once, check the result."""
        try:
            self._check_arguments(tool, arguments)
            value = await self._forward(caller, tool, arguments)
            self._check_result(tool, value)
        except ToolFault as fault:
            return Outcome(tool, fault=fault)
        return Outcome(tool, value)

    def _check_arguments(self, tool: Tool, arguments: Mapping[str, Any]) -> None:
        validator = self._validators.compile_tool(tool.digest, tool.input_schema)
        if not validator.is_valid(arguments):
            faults = validator.faults(arguments)
            raise InvalidArguments("Invalid arguments: " + "; ".join(faults), data={"faults": faults})

    async def _forward(self, caller: Caller, tool: Tool, arguments: Mapping[str, Any]) -> Any:
        binding = tool.binding
        send = self._client.notify if binding.notification else self._client.call
        return await send(
            binding.method,
            to_params(binding, arguments, self._conventions),
            headers=await self._credential.headers(caller),
            endpoint=binding.endpoint,
            timeout=binding.timeout or self._timeout(),
        )

    def _check_result(self, tool: Tool, value: Any) -> None:
        if tool.output_schema is None or isinstance(tool.output_schema, bool) or value is NOTHING:
            return
        validator = self._validators.compile_tool(tool.digest + ":out", tool.output_schema)
        if not validator.is_valid(value):
            faults = "; ".join(validator.faults(value)[:3])
            raise ResultMismatch(f"The call ran, but its result breaks the tool's output schema: {faults}")
