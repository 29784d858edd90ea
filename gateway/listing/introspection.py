"""``system.listMethods``, with ``methodSignature`` and ``methodHelp`` where offered: XML-RPC's heritage.

A signature has types and no names, so arguments are called arg0, arg1, … where the help does not name them. A method
without either takes its positional parameters as one array. Signatures and help are a call for each method: few at a
time, within the listing's deadline, and what does not come in time is left out rather than awaited. A service that
answers none of the first is not asked for the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from gateway.listing.dialect import About, ListingSource, call_question, first_answer, name_fault
from gateway.listing.docstrings import fill_from_docstring
from gateway.listing.typewords import any_if_null, any_of, schema_of_word
from gateway.model import Listing, Method, Parameter, QuarantinedMethod, Schema, Structure

LIST: Final = "system.listMethods"
SIGNATURE: Final = "system.methodSignature"
HELP: Final = "system.methodHelp"
_CONCURRENCY: Final = 4
_TRIED: Final = 16
"""Methods that are asked about before it is known that the service has an answer for any."""
_UNSUPPORTED: Final = "signatures not supported"
"""What Python's servers of XML-RPC and their heirs answer in place of a signature."""


class SystemIntrospection:
    name = "introspection"
    about = About(
        of="XML-RPC's heritage: aria2, Deluge, Pelix, django-modern-rpc, Tryton",
        asked="`system.listMethods`; then `system.methodSignature` and `system.methodHelp` of each, where listed",
        recognized="a list of names",
        carries=("description", "parameters", "types", "required", "result"),
        passed="by position",
        lost="Names of parameters where the help does not tell them: they are arg0, arg1, …, and one array, `params`, "
        "where there is no signature either. Name them under `catalog.tools.*.arguments`, as "
        "[config/examples/aria2.yaml](../config/examples/aria2.yaml) does.",
    )

    async def fetch_listing(self, source: ListingSource) -> Listing:
        listed = await first_answer([call_question(source, LIST)], recognizes, "no list of method names")
        names = [name for name in listed if isinstance(name, str)]
        signatures = await ask_each(source, SIGNATURE, names) if SIGNATURE in names else {}
        helps = await ask_each(source, HELP, names) if HELP in names else {}
        return parse_listing(listed, signatures, helps)


def is_saved(value: Any) -> bool:
    """Tell whether names in a file are the answer to ``system.listMethods``, which names itself."""
    return recognizes(value) and LIST in value


def recognizes(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(name, str) for name in value)


async def ask_each(source: ListingSource, question: str, names: list[str]) -> dict[str, Any]:
    """Return what a question that takes a method's name brought for each."""
    turn = asyncio.Semaphore(_CONCURRENCY)

    async def ask(name: str) -> tuple[str, Any]:
        async with turn:
            answer = await source.call_method(question, [name])
            return name, answer.value if answer.has_value else None

    asked = [name for name in names if not name.startswith("system.")]
    first = dict(await asyncio.gather(*map(ask, asked[:_TRIED])))
    if not any(map(_says, first.values())):
        return first  # Tryton has a thousand methods, and "signatures not supported" for each
    return first | dict(await asyncio.gather(*map(ask, asked[_TRIED:])))


def _says(answer: Any) -> bool:
    """Tell whether an answer is a signature, or may be the help of just this method."""
    return bool(answer) and answer != _UNSUPPORTED


def parse_listing(names: Iterable[Any], signatures: dict[str, Any], helps: dict[str, Any]) -> Listing:
    methods = []
    quarantined: list[QuarantinedMethod] = []
    known: set[str] = set()
    for index, name in enumerate(names):
        fault = name_fault(name, index)
        if fault is not None:
            quarantined.append(fault)
            continue
        if name in known:
            continue
        known.add(name)
        parameters, result = _types_of_signature(signatures.get(name))
        help = helps.get(name)
        method = Method(
            name,
            SystemIntrospection.name,
            description=help.strip() if isinstance(help, str) else "",
            parameters=parameters,
            structure=Structure.BY_POSITION,
            result=result,
        )
        methods.append(fill_from_docstring(method))
    return Listing(SystemIntrospection.name, tuple(methods), tuple(quarantined))


def _types_of_signature(signature: Any) -> tuple[tuple[Parameter, ...] | None, Schema | None]:
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
    return any_of(any_if_null(schema_of_word(kind)) for kind in kinds)
