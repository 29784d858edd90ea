"""Write a listing as a document that another replica can read, and read it."""

from __future__ import annotations

import zlib
from dataclasses import fields, replace
from typing import Any, Final

from gateway import jsonrpc
from gateway.model import Listing, MessageForm, Method, Parameter, QuarantinedMethod, ServiceInfo, Structure, Version

_MAX_JSON: Final = 64 * 1024**2
"""Bytes of a document before compression, so that a small one cannot fill the memory."""


def encode_listing(listing: Listing) -> bytes:
    """Return the document. Raises :class:`ValueError` where JSON cannot express the listing."""
    roots: list[Any] = []
    numbers: dict[int, int] = {}  # methods of one listing share their root, which may be large
    methods = []
    for method in listing.methods:
        if id(method.root) not in numbers:
            numbers[id(method.root)] = len(roots)
            roots.append(method.root)
        methods.append(_members(method) | {"root": numbers[id(method.root)]})
    whole = {"roots": roots, "listing": _members(listing) | {"methods": methods}}
    return zlib.compress(jsonrpc.encode(whole), 1)


def decode_listing(document: bytes) -> Listing:
    """Return the listing. Raises :class:`ValueError` for what :func:`encode_listing` did not write."""
    try:
        stream = zlib.decompressobj()
        whole = jsonrpc.decode(stream.decompress(document, _MAX_JSON))
        listing, form = Listing(**whole["listing"]), whole["listing"]["form"]
        return replace(
            listing,
            methods=tuple(_method(members, whole["roots"]) for members in whole["listing"]["methods"]),
            quarantined=tuple(QuarantinedMethod(**members) for members in whole["listing"]["quarantined"]),
            service=ServiceInfo(**whole["listing"]["service"]),
            form=MessageForm(**form | {"version": Version(form["version"])}),
            notes=tuple(listing.notes),
        )
    except (zlib.error, TypeError, KeyError, IndexError) as error:
        raise ValueError(f"not a listing: {error}") from None


def _members(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _method(members: dict[str, Any], roots: list[Any]) -> Method:
    parameters = members["parameters"]
    return replace(
        Method(**members),
        parameters=None if parameters is None else tuple(Parameter(**one) for one in parameters),
        structure=Structure(members["structure"]),
        scopes=frozenset(members["scopes"]),
        root=roots[members["root"]],
    )
