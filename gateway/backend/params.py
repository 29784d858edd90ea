"""Build the ``params`` of a call from arguments by name, and learn their structure where the listing does not say it.

A guessed structure may be wrong, and the service's error proves little: Flask-JSONRPC answers -32602 for a
``TypeError`` that came after the side effect. So the gateway tries the other structure only for tools that the operator
marked read-only or idempotent. For other tools the error says what to configure. A structure that worked is remembered.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

import structlog
from cachetools import LRUCache

from gateway.backend.resending import Reason
from gateway.errors import InvalidArguments, ParamsRefused
from gateway.model import Binding, Structure

ParamsValue: TypeAlias = dict[str, Any] | list[Any] | None

MAX_REMEMBERED: Final = 10_000
# To read a member of an enumeration takes Python 3.11 as long as twenty other steps.
_BY_POSITION: Final = Structure.BY_POSITION
_BY_NAME_IN_LIST: Final = Structure.BY_NAME_IN_LIST
_OTHER: Final = {Structure.BY_NAME: Structure.BY_POSITION, Structure.BY_POSITION: Structure.BY_NAME}

log = structlog.get_logger()


class ParamStructures:
    """Call methods with the structure of ``params`` that each takes. Remember what was learned of ``most`` methods.
    ``after_learning`` is called with each method, its endpoint and its structure. It may not raise."""

    def __init__(self, most: int = MAX_REMEMBERED) -> None:
        self._learned: LRUCache[tuple[str, str | None], Structure] = LRUCache(most)
        self.after_learning: Callable[[str, str | None, Structure], None] = lambda *_: None

    @property
    def learned(self) -> Iterator[tuple[str, str | None, Structure]]:
        """Yield each method, its endpoint and its structure, the last ones first."""
        return ((*key, self._learned[key]) for key in reversed(list(self._learned)))

    def adopt(self, method: str, endpoint: str | None, structure: Structure) -> None:
        """Remember what another replica learned, unless this one has learned it."""
        self._learned.setdefault((method, endpoint), structure)

    def params_of(self, binding: Binding, arguments: Mapping[str, Any]) -> ParamsValue:
        """Return the params that a first attempt is sent with, for callers to see: the values of fixed arguments, which
        are hidden from them, are "…". Raises :class:`InvalidArguments`."""
        learned = None if binding.structure_is_known else self._learned.get((binding.method, binding.endpoint))
        shown = replace(binding, fixed_arguments=dict.fromkeys(binding.fixed_arguments, "…"))
        return build_params(shown, arguments, learned)

    def call_method(
        self,
        binding: Binding,
        arguments: Mapping[str, Any],
        send: Callable[[ParamsValue], Awaitable[Any]],
        may_repeat: Callable[[Reason], bool],
    ) -> Awaitable[Any]:
        """Return what ``send`` returns for the params. It is called twice only where ``may_repeat`` allows it.

        Raises :class:`InvalidArguments`, also before it is awaited, and what ``send`` raises.
        """
        structure: Structure | None = binding.structure
        if not binding.structure_is_known:
            structure = self._learned.get((binding.method, binding.endpoint))
        if structure is not None:
            return send(build_params(binding, arguments, structure))
        return self._call_to_learn(binding, arguments, send, may_repeat)

    async def _call_to_learn(
        self,
        binding: Binding,
        arguments: Mapping[str, Any],
        send: Callable[[ParamsValue], Awaitable[Any]],
        may_repeat: Callable[[Reason], bool],
    ) -> Any:
        params = build_params(binding, arguments)
        try:
            result = await send(params)
        except ParamsRefused as refusal:
            if not params:
                raise
            other = _OTHER[binding.structure]
            try:
                params = build_params(binding, arguments, other)
            except InvalidArguments:  # they do not fit the other structure
                raise refusal from None
            if not may_repeat(Reason.PARAMS_REFUSED):
                refusal.message += (
                    f". It was called {binding.structure}, which is a guess: the operator can set "
                    f"backend.params.structure, or structure for this tool under catalog.tools, to {other}"
                )
                raise
            try:
                result = await send(params)
            except ParamsRefused:  # so the structure was not the fault, and the first response says more
                raise refusal from None
            self._learn(binding, other)
            return result
        if params:  # empty params fit either structure, so they prove nothing
            self._learn(binding, binding.structure)
        return result

    def _learn(self, binding: Binding, structure: Structure) -> None:
        self._learned[binding.method, binding.endpoint] = structure
        log.info("shape of params learned", method=binding.method, structure=str(structure))
        self.after_learning(binding.method, binding.endpoint, structure)


def build_params(binding: Binding, arguments: Mapping[str, Any], structure: Structure | None = None) -> ParamsValue:
    """Return ``params``, or None where the member is left out. ``structure`` replaces the binding's.

    A method that declares parameters always gets ``params``, empty or not, since services crash without it; one that
    declares none gets no such member, since others refuse an empty one. Raises :class:`InvalidArguments`.
    """
    structure = structure or binding.structure
    if binding.own_names or binding.default_arguments or binding.fixed_arguments:
        arguments = binding.complete_arguments(arguments)
    if binding.sent:
        arguments = _with_defaults(binding, structure, arguments)
    if binding.spread_argument is not None and isinstance(arguments.get(binding.spread_argument), dict):
        arguments = arguments[binding.spread_argument]
    elif structure is _BY_POSITION:
        values = _positional_values(binding, arguments)
        return values if values or binding.declares_parameters else None
    if not (arguments or binding.declares_parameters):
        return None
    return [dict(arguments)] if structure is _BY_NAME_IN_LIST else dict(arguments)


def all_arguments(binding: Binding, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return all arguments that a call is sent with, by the method's own names: the caller's, the operator's, the
    defaults, and what fills gaps between positions. Where the structure is a guess, those of both."""
    own = binding.complete_arguments(arguments)
    if binding.spread_argument is not None:
        return dict(own)  # no default has a place beside it
    structures = [binding.structure]
    if not binding.structure_is_known:
        structures.append(_OTHER[binding.structure])
    gaps: dict[str, Any] = {}
    filled: dict[str, Any] = {}
    for structure in structures:
        of_this = _with_defaults(binding, structure, own)
        filled |= of_this
        if structure is _BY_POSITION:
            last = max((place for place, name in enumerate(binding.order) if name in of_this), default=0)
            gaps = {name: binding.gap_values[name] for name in binding.order[:last] if name in binding.gap_values}
    return {**gaps, **filled}


def _with_defaults(binding: Binding, structure: Structure, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments with the defaults to be sent. By position, defaults end at the first argument without a
    value: one after it would need a value there."""
    if structure is not _BY_POSITION:
        return {**binding.sent, **arguments}
    filled = dict(arguments)
    for name in binding.order:
        if name not in filled:
            if name not in binding.sent:
                break
            filled[name] = binding.sent[name]
    return filled


def _positional_values(binding: Binding, arguments: Mapping[str, Any]) -> list[Any]:
    if binding.spread_argument is not None:
        return list(arguments.get(binding.spread_argument, ()))
    unplaced = [name for name in arguments if name not in binding.order]
    if unplaced:
        raise InvalidArguments(f"'{unplaced[0]}' has no place among the method's positional parameters; leave it out")
    given = [index for index, name in enumerate(binding.order) if name in arguments]
    values = []
    for name in binding.order[: given[-1] + 1 if given else 0]:
        if name in arguments:
            values.append(arguments[name])
        elif name in binding.gap_values:
            values.append(binding.gap_values[name])
        else:
            later = binding.order[given[-1]]
            gap, last = binding.publish_params({name: 0, later: 0})
            raise InvalidArguments(f"'{gap}' must be given because '{last}' comes after it")
    return values
