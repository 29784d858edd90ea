"""Limit the open connections of a port, and how many of them one address may have."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Final

import structlog

from gateway.errors import Overloaded
from gateway.http_server.connection import Connection
from gateway.http_server.refusal_log import RefusalLog
from gateway.networks import network_of

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

SHARE: Final = 4
SHARE_FROM_HALF: Final = 16
"""One address may have one connection in four; once half of all are open, one in sixteen (decision 30)."""
log = structlog.get_logger()
_LOOKED_AT: Final = 16  # networks, and connections of each, that are searched for an idle one
_REMEDY: Final = "raise the knob, or look who holds them"
_SHARE_REMEDY: Final = "if this is a reverse proxy, name it in server.trusted_proxies"


@dataclass(slots=True, eq=False)
class Place:
    """Hold the place of one connection, once there is one; ``network`` is "" for a trusted proxy's."""

    network: str
    connection: Connection | None = None


class ConnectionLimit:
    """Count connections: at most ``most``, and of one network a share of that, unless it ``trusts`` the address as a
    proxy's. At the maximum, an idle connection of the largest network makes room for another network."""

    def __init__(self, most: int, trusts: Callable[[str], bool]) -> None:
        self.most = most
        self.open = self.refused = 0
        self._trusts = trusts
        self._places: dict[str, dict[Place, None]] = {}
        self._by_count: dict[int, dict[str, None]] = {}
        """The networks by how many connections they have: so the largest are found without looking at all."""
        self._log = RefusalLog("connections", "server.max_connections")

    @property
    def share(self) -> int:
        """Return how many connections one network may have now."""
        return max(1, self.most // (SHARE if self.open < self.most // 2 else SHARE_FROM_HALF))

    def enter(self, address: str) -> Place:
        """Count a connection, and return its place for :meth:`leave`. Raise :class:`Overloaded` beyond the limit."""
        place = Place("" if self._trusts(address) else network_of(address))
        held = len(self._places.get(place.network, ()))
        if place.network and held >= self.share:
            self.refused += 1
            self._log.count(place.network, self.share, _SHARE_REMEDY)
            raise Overloaded("Too many connections from this address", retry_after=1)
        if self.open >= self.most and not self._close_idle(held + 1):
            self.refused += 1
            self._log.count("", self.most, _REMEDY)
            raise Overloaded("Too many connections", retry_after=1)
        self.open += 1
        if place.network:
            self._places.setdefault(place.network, {})[place] = None
            self._sort(place.network, held, held + 1)
        return place

    def leave(self, place: Place) -> None:
        place.connection = None
        if place.network:
            places = self._places.get(place.network, {})
            if place not in places:
                return  # it was closed to make room
            del places[place]
            self._sort(place.network, len(places) + 1, len(places))
            self._log.note(place.network, len(places), self.share)
        self.open -= 1
        self._log.note("", self.open, self.most)

    def _sort(self, network: str, before: int, now: int) -> None:
        if before:
            del self._by_count[before][network]
            if not self._by_count[before]:
                del self._by_count[before]
        if now:
            self._by_count.setdefault(now, {})[network] = None
        else:
            del self._places[network]

    def _close_idle(self, more_than: int) -> bool:
        """Return whether an idle connection, of the largest network with more than ``more_than``, was closed."""
        counts = sorted((count for count in self._by_count if count > more_than), reverse=True)
        for network in list(islice(chain.from_iterable(map(self._by_count.__getitem__, counts)), _LOOKED_AT)):
            for place in list(islice(self._places[network], _LOOKED_AT)):
                self._places[network][place] = self._places[network].pop(place)
                if place.connection is not None and place.connection.is_waiting:
                    place.connection.transport.abort()
                    self.leave(place)
                    return True
        return False


_WINDOWS: Final = 512  # sockets that select takes there. There is no other loop with add_reader.
_OPEN: Final = (Path("/proc/self/fd"), Path("/dev/fd"))


def raise_limit() -> int | None:
    """Raise the soft limit of open files to the hard one. Return what it is then, None where there is none."""
    if resource is None:
        return _WINDOWS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError):
            pass  # macOS says that the hard limit is infinite, and takes less
    return None if soft == resource.RLIM_INFINITY else soft


def most_connections(asked: int, others: int) -> int:
    """Return how many of the ``asked`` connections the limit of open files leaves room for, beside the files that are
    open now and ``others`` of the process: at least half of what is not open yet."""
    allowed = raise_limit()
    if allowed is None:
        return asked
    folder = next((folder for folder in _OPEN if folder.is_dir()), None)
    left = allowed - (len([*folder.iterdir()]) if folder else 0)
    most = max(left - others, left // 2, 1)
    if most >= asked:
        return asked
    log.warning(
        "server.max_connections is lowered to what the limit of open files allows",
        asked=asked,
        max_connections=most,
        limit=allowed,
        remedy="raise the hard limit: ulimit -Hn, LimitNOFILE in systemd, --ulimit nofile in Docker",
    )
    return most
