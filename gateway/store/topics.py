"""Hold who in this process wants the notices of which topic."""

from __future__ import annotations

from collections.abc import Callable

from gateway.store import MAX_NOTICE


class Topics:
    """Hold the subscribers of each topic."""

    def __init__(self) -> None:
        self._subscribers: dict[str, list[Callable[[bytes], None]]] = {}

    def __repr__(self) -> str:
        return f"<Topics {len(self._subscribers)}>"

    def subscribe(self, topic: str, receive: Callable[[bytes], None]) -> Callable[[], None]:
        """Call ``receive`` with each notice. Return what ends that; it may be called again."""
        self._subscribers.setdefault(topic, []).append(receive)

        def unsubscribe() -> None:
            subscribers = self._subscribers.get(topic, [])
            if receive in subscribers:
                subscribers.remove(receive)
            if not subscribers:
                self._subscribers.pop(topic, None)

        return unsubscribe

    def deliver(self, topic: str, notice: bytes) -> None:
        """Give a notice to the subscribers of its topic. Raises :class:`ValueError` for one that is too large."""
        if len(notice) > MAX_NOTICE:
            raise ValueError(f"a notice of {len(notice)} bytes: at most {MAX_NOTICE} are passed on")
        for receive in tuple(self._subscribers.get(topic, ())):
            receive(notice)
