"""Which shape of ``params`` a method takes, where its listing does not say.

A guess may be wrong, and what a service answers then proves little: Flask-JSONRPC says -32602 for a ``TypeError`` that
came after the side effect. So the other shape is tried for those tools alone that the operator marked read-only or
idempotent; for the others, the error says what to configure. The shape that worked is remembered.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import structlog
from cachetools import LRUCache

from gateway.backend.params import Conventions, Params, to_params
from gateway.errors import InvalidArguments, ParamsRefused
from gateway.model import Binding, Structure

MAX_REMEMBERED: Final = 10_000
_OTHER: Final = {Structure.BY_NAME: Structure.BY_POSITION, Structure.BY_POSITION: Structure.BY_NAME}

log = structlog.get_logger()


class Shapes:
    """Calls in the shape that a method takes, and what was learned of it."""

    def __init__(self, conventions: Conventions, most: int = MAX_REMEMBERED) -> None:
        self._conventions = conventions
        self._seen: LRUCache[tuple[str, str | None], Structure] = LRUCache(most)

    async def call(
        self, binding: Binding, arguments: Mapping[str, Any], send: Callable[[Params], Awaitable[Any]]
    ) -> Any:
        """What ``send`` returns, given the params. It is called twice only where :attr:`Binding.repeatable` allows it.

        Raises :class:`InvalidArguments`, and what ``send`` raises.
        """
        if binding.certain:
            return await send(to_params(binding, arguments, self._conventions))
        seen = self._seen.get((binding.method, binding.endpoint))
        if seen is not None:
            return await send(to_params(binding, arguments, self._conventions, seen))
        params = to_params(binding, arguments, self._conventions)
        try:
            result = await send(params)
        except ParamsRefused as refusal:
            if not params:
                raise
            return await self._otherwise(binding, arguments, send, refusal)
        if params:  # an empty one fits either shape
            self._learn(binding, binding.structure)
        return result

    async def _otherwise(
        self,
        binding: Binding,
        arguments: Mapping[str, Any],
        send: Callable[[Params], Awaitable[Any]],
        refusal: ParamsRefused,
    ) -> Any:
        other = _OTHER[binding.structure]
        try:
            params = to_params(binding, arguments, self._conventions, other)
        except InvalidArguments:  # they do not fit the other shape
            raise refusal from None
        if not binding.repeatable:
            raise ParamsRefused(
                f"{refusal.message}. It was called {binding.structure}, which is a guess: the operator can set "
                f"backend.params.structure, or structure for this tool under catalog.tools, to {other}",
                passed=refusal.passed,
            ) from refusal
        try:
            result = await send(params)
        except ParamsRefused:  # so the shape was not what is wrong
            raise refusal from None
        self._learn(binding, other)
        return result

    def _learn(self, binding: Binding, structure: Structure) -> None:
        self._seen[binding.method, binding.endpoint] = structure
        log.info("shape of params learned", method=binding.method, structure=str(structure))
