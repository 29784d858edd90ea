"""Read the operator's listing, ``catalog.fallback``, which is used while the backend gives none."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gateway.listing.static import Static
from gateway.model import Listing, MessageForm, SourceAnswer
from gateway.settings import CustomListing


async def read_fallback(file: str, form: MessageForm) -> Listing:
    """Return the listing in a file, read as ``dialect: static`` does. ``form`` is the message form of its calls.

    Raise :class:`~gateway.listing.dialect.NoListing`.
    """
    listing = await Static().fetch_listing(_File(file))
    note = f"the backend gave no listing; this is catalog.fallback, {file}"
    return replace(listing, form=form, notes=(*listing.notes, note))


class _File:
    """Read from a local file only, and ask the backend nothing."""

    def __init__(self, file: str) -> None:
        self.url = self.base = self.origin = ""
        self.listing_url: str | None = None
        self.file: str | None = file
        self.custom = CustomListing()
        self.documents: Mapping[str, str] = {}

    async def call_method(self, method: str, params: Any = None) -> SourceAnswer:
        return SourceAnswer(f"{method} not asked")

    async def get_document(self, url: str) -> SourceAnswer:
        return SourceAnswer(f"{url} not asked")

    async def read_file(self, file: str) -> bytes:
        return await asyncio.to_thread(Path(file).read_bytes)
