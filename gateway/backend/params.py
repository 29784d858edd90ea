"""From arguments by name to the ``params`` that a method takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gateway.errors import InvalidArguments
from gateway.model import Binding, Structure


@dataclass(frozen=True, slots=True)
class Conventions:
    """What holds for every call of a backend, see ``backend.params``."""

    prefix: tuple[Any, ...] = ()
    always: bool = False


def to_params(
    binding: Binding, arguments: Mapping[str, Any], conventions: Conventions
) -> dict[str, Any] | list[Any] | None:
    """``params``, or None where the member is to be absent.

    A method that declares parameters always gets ``params``, empty or not, since services crash without it; one that
    declares none gets no such member, since others refuse an empty one. Raises :class:`InvalidArguments`.
    """
    if binding.structure is Structure.BY_POSITION:
        values = list(conventions.prefix) + _positions(binding, arguments)
        return values if values or binding.declares_parameters or conventions.always else None
    if conventions.prefix:
        return [*conventions.prefix, dict(arguments)] if arguments else list(conventions.prefix)
    if arguments or binding.declares_parameters or conventions.always:
        return dict(arguments)
    return None


def _positions(binding: Binding, arguments: Mapping[str, Any]) -> list[Any]:
    if binding.spread is not None:
        return list(arguments.get(binding.spread, ()))
    given = [index for index, name in enumerate(binding.order) if name in arguments]
    values = []
    for name in binding.order[: given[-1] + 1 if given else 0]:
        if name in arguments:
            values.append(arguments[name])
        elif name in binding.defaults:
            values.append(binding.defaults[name])
        else:
            later = binding.order[given[-1]]
            raise InvalidArguments(f"'{name}' must be given because '{later}' comes after it")
    return values
