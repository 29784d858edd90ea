"""Call one tool in each structure of params, to find out which its method takes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from gateway import structs
from gateway.invocation.invocation import Arguments, Invocation
from gateway.model import Caller, Structure

_TRIED: Final = (Structure.BY_NAME, Structure.BY_POSITION, Structure.BY_NAME_IN_LIST)


class TrialRefused(Exception):
    """Raised where calling the tool would show nothing, or may do harm; the message says what to do."""


async def try_structures(invocation: Invocation, caller: Caller, name: str, arguments: Arguments) -> dict[str, Any]:
    """Return why the call failed in each structure, None where it had a result.

    Raises :class:`TrialRefused`, and what :meth:`~gateway.invocation.invocation.Invocation.prepare` raises.
    """
    call = await invocation.prepare(caller, name, arguments)
    binding = call.tool.binding
    # A tool may be repeatable because it is idempotent: its first call still changes something.
    if not (binding.repeatable and call.tool.annotations.get("readOnlyHint") is True):
        raise TrialRefused(
            f"{name} is not marked as read-only. If you know that it is, set "
            f'catalog.tools."{call.tool.method}".annotations.readOnlyHint: true'
        )
    if not call.arguments:
        raise TrialRefused(f"{name} without arguments is the same in every structure: give some with --arg.")
    faults = {}
    for structure in _TRIED:
        tool = replace(call.tool, binding=replace(binding, structure=structure, structure_is_known=True))
        outcome = await structs.replace(call, tool=tool).execute()
        faults[str(structure)] = None if outcome.fault is None else outcome.fault.message
    return faults
