"""Put the documents that a listing refers to by ``$ref`` into the listing, from files that the operator names.

``backend.listing.documents`` maps their addresses to files. The references become JSON pointers within the listing.
Nothing is fetched: a document that is not named there stays out, since its address is the backend's choice.
"""

import posixpath
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import yaml

from gateway import jsonrpc
from gateway.concurrency.turns import run_in_thread
from gateway.listing.dialect import ListingSource, NoListing, Step
from gateway.model import SourceAnswer

MEMBER: Final = "x-documents"
"""Member of the listing that holds the other documents, by number."""


def load(raw: bytes) -> Any:
    """Return the value of JSON or YAML. Raise :class:`ValueError` that says what is wrong, and at which line."""
    try:
        return jsonrpc.decode(raw)  # a part of YAML, read a hundred times faster
    except ValueError:
        try:
            return yaml.load(raw, Loader=_Loader)  # noqa: S506, derived from CSafeLoader
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            where = f"line {mark.line + 1}: " if mark is not None else ""
            what = str(getattr(error, "problem", None) or "neither JSON nor YAML")
            raise ValueError(where + what.replace("any token", "any token: use spaces for tabs")) from None
        except RecursionError:
            raise ValueError("nested too deeply") from None
        except (AttributeError, LookupError):  # of PyYAML, as a ValueError in other cases
            raise ValueError("a value is not what its tag (!!name) says") from None


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Load YAML safely. Dates stay text, because JSON has none. A name occurs once: the first would be lost."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        names: set[str] = set()
        for key, _ in node.value:
            if str(key.value) in names:
                raise yaml.constructor.ConstructorError(None, None, f'"{key.value}" occurs twice', key.start_mark)
            names.add(str(key.value))
        return super().construct_mapping(node, deep=deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


async def read_file(read: Callable[[str], Awaitable[bytes]], file: str) -> tuple[Any, bytes]:
    """Return the value of a local JSON or YAML file, and its bytes. Raise :class:`NoListing`."""
    try:
        raw = await read(file)
        return await run_in_thread(load, raw), raw  # a saved answer may have megabytes
    except (OSError, ValueError) as error:
        what = getattr(error, "strerror", None) or str(error)
        raise NoListing([Step(file, SourceAnswer(what))]) from None


async def read_documents(source: ListingSource) -> dict[str, Any]:
    """Return the operator's documents by their addresses. Raise :class:`NoListing`."""
    return {address: (await read_file(source.read_file, file))[0] for address, file in source.listing.documents.items()}


def inline_documents(document: Any, others: Mapping[str, Any]) -> Any:
    """Return a listing with other documents inside, and references to their addresses turned into pointers."""
    if not others or not isinstance(document, dict):
        return document
    pointers = {posixpath.normpath(address): f"#/{MEMBER}/{number}" for number, address in enumerate(others)}
    try:
        inside = [_rewrite(other, address, pointers) for address, other in others.items()]
        return {**_rewrite(document, "", pointers), MEMBER: {str(number): other for number, other in enumerate(inside)}}
    except RecursionError:
        return document  # methods that need the other documents are quarantined later


def _rewrite(value: Any, own: str, pointers: Mapping[str, str]) -> Any:
    """Return a value of the document at the address ``own`` ("" for the listing) with its references as pointers."""
    if isinstance(value, list):
        return [_rewrite(item, own, pointers) for item in value]
    if not isinstance(value, dict):
        return value
    rewritten = {key: _rewrite(child, own, pointers) for key, child in value.items()}
    reference = value.get("$ref")
    if isinstance(reference, str):
        rewritten["$ref"] = _pointer(reference, own, pointers)
    return rewritten


def _pointer(reference: str, own: str, pointers: Mapping[str, str]) -> str:
    address, _, fragment = reference.partition("#")
    if fragment and not fragment.startswith("/"):
        return reference  # an anchor
    # An address counts as it is written, or relative to the document that has the reference.
    resolved = posixpath.join(posixpath.dirname(own), address) if address else own
    for candidate in (address, resolved) if address else (resolved,):
        pointer = pointers.get(posixpath.normpath(candidate)) if candidate else None
        if pointer is not None:
            return pointer + fragment
    return reference
