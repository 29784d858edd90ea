"""From arguments by name to the ``params`` that a method takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from gateway.errors import InvalidArguments
from gateway.model import Binding, Structure

Params: TypeAlias = dict[str, Any] | list[Any] | None


@dataclass(frozen=True, slots=True)
class Conventions:
    """What holds for every call of a backend, see ``backend.params``. ``null_gaps`` fills with null what an argument
    left out between two others has no other value for."""

    prefix: tuple[Any, ...] = ()
    always: bool = False
    null_gaps: bool = False


def to_params(
    binding: Binding, arguments: Mapping[str, Any], conventions: Conventions, structure: Structure | None = None
) -> Params:
    """``params``, or None where the member is to be absent. ``structure`` stands in for the binding's.

    A method that declares parameters always gets ``params``, empty or not, since services crash without it; one that
    declares none gets no such member, since others refuse an empty one. Raises :class:`InvalidArguments`.
    """
    structure = structure or binding.structure
    arguments = _with_defaults(binding, structure, binding.complete(arguments))
    if binding.spread is not None and isinstance(arguments.get(binding.spread), dict):
        arguments = arguments[binding.spread]
    elif structure is Structure.BY_POSITION:
        values = list(conventions.prefix) + _positions(binding, arguments, conventions)
        return values if values or binding.declares_parameters or conventions.always else None
    if structure is Structure.BY_NAME_IN_LIST and (arguments or binding.declares_parameters):
        return [*conventions.prefix, dict(arguments)]
    if conventions.prefix or structure is Structure.BY_NAME_IN_LIST:
        values = [*conventions.prefix, dict(arguments)] if arguments else [*conventions.prefix]
        return values if values or conventions.always else None
    if arguments or binding.declares_parameters or conventions.always:
        return dict(arguments)
    return None


def _with_defaults(binding: Binding, structure: Structure, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the arguments with the defaults to be sent; by position up to the first argument that has no value, since
    what comes after it would make that one needed."""
    if not binding.sent:
        return arguments
    if structure is not Structure.BY_POSITION:
        return {**binding.sent, **arguments}
    filled = dict(arguments)
    for name in binding.order:
        if name not in filled:
            if name not in binding.sent:
                break
            filled[name] = binding.sent[name]
    return filled


def _positions(binding: Binding, arguments: Mapping[str, Any], conventions: Conventions) -> list[Any]:
    if binding.spread is not None:
        return list(arguments.get(binding.spread, ()))
    placeless = [name for name in arguments if name not in binding.order]
    if placeless:
        raise InvalidArguments(f"'{placeless[0]}' has no place among the method's positional parameters; leave it out")
    given = [index for index, name in enumerate(binding.order) if name in arguments]
    values = []
    for name in binding.order[: given[-1] + 1 if given else 0]:
        if name in arguments:
            values.append(arguments[name])
        elif name in binding.defaults:
            values.append(binding.defaults[name])
        elif conventions.null_gaps:
            values.append(None)
        else:
            later = binding.order[given[-1]]
            gap, last = binding.published({name: 0, later: 0})
            raise InvalidArguments(f"'{gap}' must be given because '{last}' comes after it")
    return values
