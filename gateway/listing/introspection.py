"""``system.listMethods``, with ``methodSignature`` and ``methodHelp`` where offered: XML-RPC's heritage.

A signature has types and no names, so arguments are called arg0, arg1, … A method without one takes its positional
parameters as one array. Signatures and help are a call for each method: few at a time, within the listing's deadline,
and what does not come in time is left out rather than awaited.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from gateway.listing.dialect import NoListing, Source, Step, name_fault, not_a_listing
from gateway.model import Listing, Method, Parameter, Quarantined, Schema, Structure

LIST: Final = "system.listMethods"
SIGNATURE: Final = "system.methodSignature"
HELP: Final = "system.methodHelp"
_CONCURRENCY: Final = 4

# XML-RPC's type names (https://xmlrpc.com/spec.md), and what services add to them. Others say nothing.
_TYPES: Final[dict[str, Schema]] = {
    "int": {"type": "integer"},
    "i4": {"type": "integer"},
    "i8": {"type": "integer"},
    "integer": {"type": "integer"},
    "double": {"type": "number"},
    "float": {"type": "number"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "bool": {"type": "boolean"},
    "string": {"type": "string"},
    "str": {"type": "string"},
    "base64": {"type": "string", "contentEncoding": "base64"},
    "dateTime.iso8601": {"type": "string", "format": "date-time"},
    "array": {"type": "array"},
    "list": {"type": "array"},
    "struct": {"type": "object"},
    "object": {"type": "object"},
    "dict": {"type": "object"},
}


class Introspection:
    name = "introspection"

    async def fetch(self, source: Source) -> Listing:
        seen = await source.call(LIST)
        if not (seen.found and recognizes(seen.value)):
            steps: list[Step] = []
            not_a_listing(steps, LIST, seen, "no list of method names")
            raise NoListing(steps)
        names = [name for name in seen.value if isinstance(name, str)]
        signatures = await _ask_each(source, SIGNATURE, names)
        helps = await _ask_each(source, HELP, names)
        return parse(seen.value, signatures, helps)


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
    schemas = [_TYPES.get(kind, True) for kind in dict.fromkeys(kinds)]
    if True in schemas:
        return True
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
