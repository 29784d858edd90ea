"""Documents that ``$ref``s of a listing lead to, from files that the operator names in ``backend.listing.documents``.

They are put into the listing, and the references turned into pointers there. What is not named is not looked for:
nothing is fetched.
"""

from __future__ import annotations

import asyncio
import posixpath
from collections.abc import Mapping
from typing import Any, Final

import yaml

from gateway import jsonrpc
from gateway.listing.dialect import ListingSource, NoListing, Step
from gateway.model import SourceAnswer

MEMBER: Final = "x-documents"
"""Where the documents stand in the listing."""


class Unreadable(ValueError):
    """A file holds neither JSON nor YAML; the message says where."""


def load(raw: bytes) -> Any:
    """Read JSON or YAML. Raises :class:`Unreadable`."""
    try:
        return jsonrpc.decode(raw)  # a part of YAML, read a hundred times faster
    except ValueError:
        try:
            return yaml.load(raw, Loader=_Loader)  # noqa: S506, derived from CSafeLoader
        except UnicodeDecodeError:
            raise Unreadable("not UTF-8") from None
        except yaml.YAMLError as error:
            raise Unreadable(" ".join(str(error).split())) from None
        except RecursionError:
            raise Unreadable("nested too deeply") from None


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML, of which JSON is a part; dates stay text, since JSON knows none."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


async def read_file(source: ListingSource, file: str) -> Any:
    """Return what a local file holds. Raises :class:`NoListing`."""
    try:
        raw = await source.read_file(file)
        return await asyncio.to_thread(load, raw)  # a saved answer may have megabytes
    except OSError as error:
        raise NoListing([Step(file, SourceAnswer(error.strerror or str(error)))]) from None
    except Unreadable as error:
        raise NoListing([Step(file, SourceAnswer(str(error)))]) from None


async def others_of(source: ListingSource) -> dict[str, Any]:
    """Return the named documents by their addresses. Raises :class:`NoListing`."""
    return {address: await read_file(source, file) for address, file in source.documents.items()}


def joined(document: Any, others: Mapping[str, Any]) -> Any:
    """Return a listing with other documents inside, and no reference that leads to them by their address."""
    if not others or not isinstance(document, dict):
        return document
    places = {posixpath.normpath(address): f"#/{MEMBER}/{number}" for number, address in enumerate(others)}
    try:
        inside = [_pointed(other, address, places) for address, other in others.items()]
        return {**_pointed(document, "", places), MEMBER: {str(number): other for number, other in enumerate(inside)}}
    except RecursionError:
        return document  # what needs the others is quarantined


def _pointed(value: Any, own: str, places: Mapping[str, str]) -> Any:
    """Return the value of the document at the address ``own`` ("" for the listing) with its references as pointers."""
    if isinstance(value, list):
        return [_pointed(item, own, places) for item in value]
    if not isinstance(value, dict):
        return value
    pointed = {key: _pointed(child, own, places) for key, child in value.items()}
    reference = value.get("$ref")
    if isinstance(reference, str):
        pointed["$ref"] = _pointer(reference, own, places)
    return pointed


def _pointer(reference: str, own: str, places: Mapping[str, str]) -> str:
    address, _, fragment = reference.partition("#")
    if fragment and not fragment.startswith("/"):
        return reference  # an anchor
    beside = posixpath.join(posixpath.dirname(own), address) if address else own
    for one in (address, beside) if address else (beside,):
        place = places.get(posixpath.normpath(one)) if one else None
        if place is not None:
            return place + fragment
    return reference
