"""``system.listMethods``, with ``methodSignature`` and ``methodHelp`` where offered: XML-RPC's heritage.

A signature has types and no names, so arguments are called arg0, arg1, … A method without one takes its positional
parameters as one array. Signatures and help are a call for each method: few at a time, within the listing's deadline,
and what does not come in time is left out rather than awaited.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from gateway.listing.dialect import About, Source, call, first_answer, name_fault
from gateway.listing.typewords import any_of, schema_of_word, told
from gateway.model import Listing, Method, Parameter, Quarantined, Schema, Structure

LIST: Final = "system.listMethods"
SIGNATURE: Final = "system.methodSignature"
HELP: Final = "system.methodHelp"
_CONCURRENCY: Final = 4


class Introspection:
    name = "introspection"
    about = About(
        of="XML-RPC's heritage: aria2, Deluge, Pelix, django-modern-rpc, Tryton",
        asked="`system.listMethods`; then `system.methodSignature` and `system.methodHelp` of each, where listed",
        recognized="a list of names",
        carries=("description", "types", "required", "result"),
        passed="by position",
        lost="Names of parameters: they are arg0, arg1, …, and one array, `params`, where there is no signature. Name "
        "them under `catalog.tools.*.arguments`, as [config/examples/aria2.yaml](../config/examples/aria2.yaml) does.",
    )

    async def fetch(self, source: Source) -> Listing:
        listed = await first_answer([call(source, LIST)], recognizes, "no list of method names")
        names = [name for name in listed if isinstance(name, str)]
        signatures = await _ask_each(source, SIGNATURE, names)
        helps = await _ask_each(source, HELP, names)
        return parse(listed, signatures, helps)


def recognizes(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(name, str) for name in value)


async def _ask_each(source: Source, question: str, names: list[str]) -> dict[str, Any]:
    if question not in names:
        return {}
    turn = asyncio.Semaphore(_CONCURRENCY)

    async def ask(name: str) -> tuple[str, Any]:
        async with turn:
            seen = await source.call(question, [name])
            return name, seen.value if seen.found else None

    return dict(await asyncio.gather(*(ask(name) for name in names if not name.startswith("system."))))


def parse(names: Iterable[Any], signatures: dict[str, Any], helps: dict[str, Any]) -> Listing:
    methods = []
    quarantined: list[Quarantined] = []
    known: set[str] = set()
    for index, name in enumerate(names):
        fault = name_fault(name, index)
        if fault is not None:
            quarantined.append(fault)
            continue
        if name in known:
            continue
        known.add(name)
        parameters, result = _typed(signatures.get(name))
        help = helps.get(name)
        methods.append(
            Method(
                name,
                Introspection.name,
                description=help.strip() if isinstance(help, str) else "",
                parameters=parameters,
                structure=Structure.BY_POSITION,
                result=result,
            )
        )
    return Listing(Introspection.name, tuple(methods), tuple(quarantined))


def _typed(signature: Any) -> tuple[tuple[Parameter, ...] | None, Schema | None]:
    """Parameters and result of ``[[result, param, …], …]``; services that know none answer text or null."""
    alternatives = [
        alternative
        for alternative in (signature if isinstance(signature, list) else ())
        if isinstance(alternative, list) and alternative and all(isinstance(kind, str) for kind in alternative)
    ]
    if not alternatives:
        return None, None
    shortest = min(map(len, alternatives))
    parameters = []
    for position in range(1, max(map(len, alternatives))):
        kinds = [alternative[position] for alternative in alternatives if position < len(alternative)]
        parameters.append(Parameter(f"arg{position - 1}", _union(kinds), position < shortest))
    return tuple(parameters), _union([alternative[0] for alternative in alternatives])


def _union(kinds: list[str]) -> Schema:
    return any_of(told(schema_of_word(kind)) for kind in kinds)
