"""Call one tool in each structure of params, to find out which its method takes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from gateway.invocation.invocation import Arguments, Invocation
from gateway.model import Caller, Structure

_TRIED: Final = (Structure.BY_NAME, Structure.BY_POSITION, Structure.BY_NAME_IN_LIST)


class TrialRefused(Exception):
    """There is nothing to be learned from calling the tool, or it may do harm; the message says what to do."""


async def try_structures(invocation: Invocation, caller: Caller, name: str, arguments: Arguments) -> dict[str, Any]:
    """Return what each structure brought: None for a result, else why the call failed.

    Raises :class:`TrialRefused`, and what :meth:`~gateway.invocation.invocation.Invocation.prepare` raises.
    """
    call = await invocation.prepare(caller, name, arguments)
    binding = call.tool.binding
    if not binding.repeatable:
        raise TrialRefused(
            f"{name} is not known to change nothing. Where you know that, set "
            f'catalog.tools."{call.tool.method}".annotations.readOnlyHint: true'
        )
    if not call.arguments:
        raise TrialRefused(f"{name} without arguments is the same in every structure: give some by --arg.")
    brought = {}
    for structure in _TRIED:
        tool = replace(call.tool, binding=replace(binding, structure=structure, structure_is_known=True))
        outcome = await replace(call, tool=tool).execute()
        brought[str(structure)] = None if outcome.fault is None else outcome.fault.message
    return brought
