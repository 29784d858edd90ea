"""The six services whose listings the questions are about, and what a gateway in front of each is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from lab.reach import launch as reach
from tests.services import launch
from tests.services.process import Service

_OPENRPC: Final = launch.NODE_PROJECT / "node_modules" / "@metamask" / "api-specs" / "dist" / "build" / "openrpc.json"


@dataclass(frozen=True)
class Listing:
    """Hold a service. ``settings`` prove who asks, or name the listing that the service does not give itself."""

    start: Callable[[], Service]
    settings: tuple[str, ...] = ()


def _user(name: str, password: str) -> str:
    return f"backend.credentials={{mode: basic, user: {name}, password: {password}}}"


LISTINGS: Final[Mapping[str, Listing]] = {
    "kodi": Listing(reach.kodi),
    "tryton": Listing(launch.tryton, (_user("admin", "admin"),)),
    # Its nodes list nothing; a published document describes them all.
    "ethereum": Listing(reach.ganache, (f"backend.listing={{dialect: static, file: {_OPENRPC}}}",)),
    "drupal": Listing(lambda: launch.drupal(mcp=True), (_user("admin", "admin"), "backend.listing.dialect=drupal")),
    "mopidy": Listing(launch.mopidy),
    "electrum": Listing(launch.electrum, (_user("u", "p"),)),
}
"""By the name of the file with their questions."""
