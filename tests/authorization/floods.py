"""Floods of bad tokens, one after the other from one caller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeAlias

from tests.authorization.issuer import ForgedIssuer
from tests.authorization.keys import ec_key
from tests.authorization.rows import bearer
from tests.authorization.test_canaries import Watched

Kind: TypeAlias = Callable[[ForgedIssuer, int], list[str]]
_PAUSE: Final = 0.001


def random_kids(issuer: ForgedIssuer, count: int) -> list[str]:
    stranger = ec_key("k1")
    return [issuer.sign(key=stranger, header={"kid": f"random-{number}"}) for number in range(count)]


def bad_signatures(issuer: ForgedIssuer, count: int) -> list[str]:
    stranger = ec_key("k1")
    return [issuer.sign(key=stranger, sub=f"nobody-{number}") for number in range(count)]


KINDS: Final[tuple[Kind, ...]] = (random_kids, bad_signatures)


async def flood(it: Watched, tokens: list[str], stop: asyncio.Event) -> set[int]:
    """Show one token after another. Returns the statuses of the answers."""
    statuses: set[int] = set()
    client = it.stand.client()
    for token in tokens:
        if stop.is_set():
            break
        statuses.add((await client.send("GET", "/mcp/tools/list", None, bearer(token))).status)
        await asyncio.sleep(_PAUSE)
    return statuses
