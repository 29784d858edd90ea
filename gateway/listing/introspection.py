"""Read ``system.listMethods``, with ``methodSignature`` and ``methodHelp`` where listed: the introspection of XML-RPC.

A signature has types and no names, so arguments are called arg0, arg1, … unless the help begins with the call itself:
fields such as ``:param a:`` may stand in any order. Without a signature, arguments that the help names go by name where
the service takes names: whether it gives the same help where it is asked by name. One that spreads an object like a
list would run a call with the names of arguments as their values. Otherwise the positional params are one array.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from gateway.concurrency.turns import run_in_thread
from gateway.listing.dialect import DialectInfo, ListingSource, call_question, first_match, listing_of
from gateway.listing.docstrings import fill_from_docstring
from gateway.listing.entries import any_if_null, any_of, schema_of_word, text_of
from gateway.model import Listing, Method, Parameter, Schema, Structure

LIST: Final = "system.listMethods"
SIGNATURE: Final = "system.methodSignature"
HELP: Final = "system.methodHelp"
_MOST_SIGNATURES: Final = 50
"""Signatures of one method that are read. Real methods have up to three."""


class SystemIntrospection:
    name = "introspection"
    info = DialectInfo(
        spoken_by="services with XML-RPC's introspection: aria2, Deluge, Pelix, django-modern-rpc, Tryton",
        requests="`system.listMethods`; then `system.methodSignature` and `system.methodHelp` of each, where listed, "
        "up to 5,000",
        recognized_by="a list of names",
        carries=("description", "parameters", "types", "required", "result"),
        params="by position",
        not_carried="Names of parameters that the help does not name: they are arg0, arg1, …; without a signature "
        "too, there is one array, `params`. Name them under `catalog.tools.*.arguments`, as "
        "[config/examples/aria2.yaml](../config/examples/aria2.yaml) does.",
    )

    async def fetch_listing(self, source: ListingSource) -> Listing:
        listed = await first_match([call_question(source, LIST)], recognizes, "no list of method names")
        names = [name for name in listed if isinstance(name, str)]
        interview = source.interview
        interview.begin(name for name in names if not name.startswith("system."))
        await interview.ask_again(source, (SIGNATURE, HELP))
        asked = [method for method in (SIGNATURE, HELP) if method in names and await interview.sample(source, method)]
        takes_names = HELP in asked and await interview.ask_by_name(source, HELP, "method_name")
        await interview.ask_rest(source, asked)
        signatures, helps = interview.answers_to(SIGNATURE), interview.answers_to(HELP)

        def read() -> Listing:
            described = [name for name in listed if not isinstance(name, str) or name not in interview.held_back]
            listing = parse_listing(described, signatures, helps, takes_names=takes_names)
            return interview.complete(listing, listed)

        return await run_in_thread(read)  # to read the help of thousands of methods takes seconds


def is_saved(value: Any) -> bool:
    """Return whether a value from a file is an answer to ``system.listMethods``, which lists itself."""
    return recognizes(value) and LIST in value


def recognizes(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(name, str) for name in value)


def parse_listing(
    names: Iterable[Any], signatures: dict[str, Any], helps: dict[str, Any], *, takes_names: bool = False
) -> Listing:
    def parse_entry(name: str, _: Any) -> Method:
        parameters, result = _types_of_signature(signatures.get(name))
        method = Method(
            name,
            description=text_of(helps.get(name)).strip(),
            parameters=parameters,
            structure=Structure.EITHER if takes_names else Structure.BY_POSITION,
            result=result,
        )
        method = fill_from_docstring(method)
        if method.structure is Structure.EITHER:
            by_name = method.parameters is not None and not method.is_complete
            method = replace(method, structure=Structure.BY_NAME if by_name else Structure.BY_POSITION)
        return method

    # A name may stand twice. What is no name may be unhashable, and counts by its place.
    distinct = {name if isinstance(name, str) else index: name for index, name in enumerate(names)}
    return listing_of(SystemIntrospection.name, ((name, None) for name in distinct.values()), parse_entry)


def _types_of_signature(signature: Any) -> tuple[tuple[Parameter, ...] | None, Schema | None]:
    """Return the parameters and the result of ``[[result, param, …], …]``; None for an answer without types."""
    read = signature[:_MOST_SIGNATURES] if isinstance(signature, list) else ()
    alternatives = [one for one in read if isinstance(one, list) and one and all(isinstance(kind, str) for kind in one)]
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
