"""Tell other replicas what this one found out of the backend: that a caller's tools changed, the structure of params
that a method takes, and output schemas that a result broke.

Callers' own listings stay in the process: a replica that hears of a change lists for itself. A replica that starts asks
the others what they have learned. Nothing of this is kept in the store, so what was learned ends with the last process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from enum import StrEnum, auto
from itertools import islice
from typing import Any, Final

from gateway import jsonrpc
from gateway.backend.params import ParamStructures
from gateway.discovery.catalogs import BrokenOutputSchemas
from gateway.discovery.discovery import Discovery
from gateway.discovery.subscriptions import Subscriptions
from gateway.model import Structure, View
from gateway.store import Store

MAX_TOLD: Final = 200
"""Most things of one kind that a replica which starts is told; methods' names have at most 256 characters or so."""
DOUBT_AFTER: Final = 1.0
"""Seconds for which a replica trusts its own listing of a caller, whatever others say: a service that answers each
question differently must not make replicas ask all the time."""


class Found(StrEnum):
    """Say what a notice is about; ``ASK`` comes from a replica that starts."""

    VIEW = auto()
    STRUCTURE = auto()
    BROKEN = auto()
    ASK = auto()


class DiscoveryNotices:
    """Pass on what the replicas of one service find out. ``backend`` names the backend and its settings: replicas that
    differ, during a rollout, do not learn from each other."""

    def __init__(
        self, store: Store, backend: str, structures: ParamStructures, broken_output_schemas: BrokenOutputSchemas
    ) -> None:
        self._store = store
        self._topic = f"found:{backend}"
        self._structures = structures
        self._broken = broken_output_schemas
        self._end: Callable[[], None] = lambda: None
        self._tasks: set[asyncio.Task[Any]] = set()

    def __repr__(self) -> str:
        return f"<DiscoveryNotices {len(self._tasks)} under way>"

    def follow(self, discovery: Discovery, subscriptions: Subscriptions) -> None:
        """Tell and hear from now on."""
        if not self._store.is_shared:
            return
        discovery.after_change = self._tell_change
        self._structures.after_learning = lambda *fact: self._tell(Found.STRUCTURE, *fact)
        self._broken.after_recording = lambda *fact: self._tell(Found.BROKEN, *fact)
        self._end = self._store.subscribe(self._topic, lambda notice: self._hear(notice, discovery, subscriptions))
        self._tell(Found.ASK)

    def close(self) -> None:
        """Stop telling and hearing."""
        self._end()
        for task in self._tasks:
            task.cancel()

    def _hear(self, notice: bytes, discovery: Discovery, subscriptions: Subscriptions) -> None:
        """Take over what a replica found, also this one. One of another version may say what this one does not know."""
        match jsonrpc.decode(notice):
            case [Found.VIEW, str(issuer), str(subject), str(client), [*scopes], str(language), str(digest)]:
                view = View(issuer, subject, client, frozenset(scopes), language)
                if discovery.doubt(view, digest, DOUBT_AFTER):
                    subscriptions.tick(view)  # each of its streams asks for a refresh of what is stale
            case [Found.STRUCTURE, str(method), endpoint, str(structure)] if structure in tuple(Structure):
                self._structures.adopt(method, endpoint, Structure(structure))
            case [Found.BROKEN, str(method), str(digest)]:
                if self._broken.adopt(method, digest):
                    self._start(discovery.drop_broken_schemas())
            case [Found.ASK]:
                for fact in islice(self._structures.learned, MAX_TOLD):
                    self._tell(Found.STRUCTURE, *fact)
                for broken in islice(self._broken.recorded, MAX_TOLD):
                    self._tell(Found.BROKEN, *broken)

    def _tell_change(self, view: View, digest: str) -> None:
        if not view.is_shared:  # replicas share that listing itself
            fields = view.issuer, view.subject, view.client, sorted(view.scopes), view.language
            self._tell(Found.VIEW, *fields, digest)

    def _tell(self, *what: Any) -> None:
        self._start(self._store.publish(self._topic, jsonrpc.encode(what)))

    def _start(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
