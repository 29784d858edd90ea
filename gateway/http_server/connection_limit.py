"""Limit the open connections of a port, and how many of them one address may have."""

from collections.abc import Callable, Iterable
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


@dataclass(slots=True, eq=False)
class Place:
    """Hold the place of one connection, once there is one; ``network`` is "" for a trusted proxy's. ``is_beyond`` says
    that there was no room for it."""

    network: str
    is_beyond: bool = False
    connection: Connection | None = None


class ConnectionLimit:
    """Count connections: at most ``most``, and of one network a share of that, unless it ``trusts`` the address as a
    proxy's. At the maximum, an idle connection of the largest network makes room for another network."""

    looked_at = 16
    """Networks, and connections of each, that are searched for an idle one."""
    knob = "server.max_connections"
    remedy = "raise the knob, or look who holds them"
    share_remedy = "if this is a reverse proxy, name it in server.trusted_proxies"

    def __init__(self, most: int, trusts: Callable[[str], bool]) -> None:
        self.most = most
        self.open = self.refused = 0
        self._trusts = trusts
        self._places: dict[str, dict[Place, None]] = {}
        self._by_count: dict[int, dict[str, None]] = {}
        """The networks by how many connections they have: so the largest are found without looking at all."""
        self._log = RefusalLog("connections", self.knob)

    @property
    def share(self) -> int:
        """Return how many connections one network may have now."""
        return max(1, self.most // (SHARE if self.open < self.most // 2 else SHARE_FROM_HALF))

    def enter(self, address: str, first_head: Callable[[], bytes] = bytes) -> Place:
        """Count a connection, and return its place for :meth:`leave`. Raise :class:`Overloaded` beyond the limit.
        ``first_head`` returns the head of its first request, b"" where not all of it has come."""
        place = Place("" if self._trusts(address) else network_of(address))
        held = len(self._places.get(place.network, ()))
        if place.network and held >= self.share:
            if not self._makes_room(place) and not self._goes_beyond(place, first_head):
                self.refused += 1
                self._log.count(place.network, self.share, self.share_remedy)
                raise Overloaded("Too many connections from this address", retry_after=1)
        elif (
            self.open >= self.most
            and not self._makes_room_for(place, held)
            and not self._goes_beyond(place, first_head)
        ):
            self.refused += 1
            self._log.count("", self.most, self.remedy)
            raise Overloaded("Too many connections", retry_after=1)
        self.open += 1
        if place.network:
            places = self._places.setdefault(place.network, {})
            self._sort(place.network, len(places), len(places) + 1)
            places[place] = None
        return place

    def _makes_room(self, place: Place) -> bool:
        """Return whether a connection of a network that has its share was closed for another one of it."""
        return False

    def _makes_room_for(self, place: Place, held: int) -> bool:
        """Return whether a connection was closed for one of a network that has ``held``, where all are taken."""
        return self._close_idle(self._larger_than(held + 1), place)

    def _goes_beyond(self, place: Place, first_head: Callable[[], bytes]) -> bool:
        """Return whether a connection is let in for which there is no room."""
        return False

    def _is_idle(self, connection: Connection) -> bool:
        return connection.is_waiting

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

    def _larger_than(self, count: int) -> Iterable[str]:
        """Return the networks with more than ``count`` connections, the largest first."""
        counts = sorted((one for one in self._by_count if one > count), reverse=True)
        return chain.from_iterable(map(self._by_count.__getitem__, counts))

    def _close_idle(self, networks: Iterable[str], newcomer: Place) -> bool:
        """Return whether an idle connection of the first of these networks that has one was closed: that which is there
        for longest. Where it was beyond the limit, the newcomer is."""
        for network in list(islice(networks, self.looked_at)):
            for place in list(islice(self._places[network], self.looked_at)):
                self._places[network][place] = self._places[network].pop(place)
                if place.connection is not None and self._is_idle(place.connection):
                    newcomer.is_beyond = place.is_beyond
                    place.connection.transport.abort()
                    self.leave(place)
                    return True
        return False


class AdminLimit(ConnectionLimit):
    """Count the connections of a port of few clients, which must always get their answers. There an idle connection
    makes room for any other, also of its own network. Whose request has come already needs no room: ``beyond`` of those
    that begin as ``urgent`` ones do, or half as many, may be there beside."""

    knob = "server.admin_port"
    remedy = share_remedy = "look who holds them, and let probes and Prometheus alone reach the port"

    def __init__(self, most: int, beyond: int, urgent: tuple[bytes, ...]) -> None:
        super().__init__(most, lambda _: False)
        self._beyond = beyond
        self._urgent = urgent
        self._are_beyond = 0
        self.looked_at = most + beyond

    def _makes_room(self, place: Place) -> bool:
        return self._close_idle([place.network], place)

    def _makes_room_for(self, place: Place, held: int) -> bool:
        return self._close_idle(self._larger_than(0), place)

    def _close_idle(self, networks: Iterable[str], newcomer: Place) -> bool:
        is_closed = super()._close_idle(networks, newcomer)
        self._are_beyond += newcomer.is_beyond
        return is_closed

    def _goes_beyond(self, place: Place, first_head: Callable[[], bytes]) -> bool:
        head = first_head() if self._are_beyond < self._beyond else b""
        most = self._beyond if head.startswith(self._urgent) else self._beyond // 2
        place.is_beyond = bool(head) and self._are_beyond < most
        self._are_beyond += place.is_beyond
        return place.is_beyond

    def leave(self, place: Place) -> None:
        self._are_beyond -= place.is_beyond
        place.is_beyond = False
        super().leave(place)

    def _is_idle(self, connection: Connection) -> bool:
        return connection.is_idle


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
