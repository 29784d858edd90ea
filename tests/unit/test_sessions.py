"""Sessions as a clock and other callers see them; over HTTP they are in tests/protocol/test_sessions.py."""

from __future__ import annotations

import pytest

from gateway.errors import RateLimited, SessionNotFound
from gateway.limits import Budget
from gateway.mcp.sessions import TTL, Session, Sessions
from gateway.model import AccessToken, Caller, Principal
from gateway.signing import Signer, SigningKeys
from gateway.store.memory import MemoryStore
from tests.each import each
from tests.manual_clock import ManualClock

LOGIN = "https://login.example.com"
RESOURCE = "https://gateway.example.com/mcp"
KEYS = SigningKeys((b"a secret of sixteen bytes and more",), RESOURCE)


def somebody(
    subject: str = "ada", issuer: str = LOGIN, *scopes: str, address: str = "192.0.2.1", token: str = "t"
) -> Caller:
    """One of many who see the same tools."""
    principal = Principal(issuer, subject, "app", frozenset(scopes), 2_000_000_000.0, AccessToken(token))
    return Caller(address, principal=principal)


ADA = somebody("ada", LOGIN, "read")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_800_000_000.0)


@pytest.fixture
def sessions(clock: ManualClock) -> Sessions:
    return with_keys(KEYS, clock)


def with_keys(keys: SigningKeys, clock: ManualClock) -> Sessions:
    store = MemoryStore(clock)
    return Sessions(keys, store, Budget(store, "session end", "3/minute"), clock)


async def is_found(sessions: Sessions, id: str, caller: Caller = ADA) -> bool:
    try:
        await sessions.read_session(id, caller)
    except SessionNotFound:
        return False
    return True


async def test_a_session_is_read_as_it_was_opened(sessions: Sessions) -> None:
    id = sessions.open_session("2025-06-18", ADA)
    assert await sessions.read_session(id, ADA) == Session("2025-06-18")


async def test_it_is_good_for_a_day_and_no_longer(sessions: Sessions, clock: ManualClock) -> None:
    id = sessions.open_session("2025-06-18", ADA)
    clock.now += TTL - 1
    assert await is_found(sessions, id)
    clock.now += 1
    assert not await is_found(sessions, id)


async def test_use_does_not_prolong_it(sessions: Sessions, clock: ManualClock) -> None:
    id = sessions.open_session("2025-06-18", ADA)
    for _ in range(3):
        clock.now += TTL / 3
        found = await is_found(sessions, id)
    assert not found


@each(
    ("caller", "found"),
    {
        "from elsewhere": (somebody(address="198.51.100.7"), True),
        "with another scope": (somebody("ada", LOGIN, "read", "write"), True),
        "with another token": (somebody(token="refreshed"), True),
        "another subject": (somebody("bob"), False),
        "another issuer": (somebody("ada", "https://other.example.com"), False),
        "shifted": (somebody("", f"{LOGIN}\nada"), False),
        "nobody": (Caller("192.0.2.1"), False),
    },
)
async def test_it_is_its_caller_s_alone(sessions: Sessions, caller: Caller, found: bool) -> None:
    """security.md R20: bound to issuer and subject, since it authenticates nobody."""
    id = sessions.open_session("2025-06-18", ADA)
    assert await is_found(sessions, id, caller) == found


async def test_another_caller_cannot_end_it(sessions: Sessions) -> None:
    id = sessions.open_session("2025-06-18", ADA)
    with pytest.raises(SessionNotFound):
        await sessions.end_session(id, Caller())
    assert await is_found(sessions, id)


async def test_once_ended_it_is_gone_for_as_long_as_it_would_have_been_good(
    sessions: Sessions, clock: ManualClock
) -> None:
    id, other = sessions.open_session("2025-06-18", ADA), sessions.open_session("2025-06-18", ADA)
    await sessions.end_session(id, ADA)
    assert await is_found(sessions, other)
    for _ in range(3):
        assert not await is_found(sessions, id)
        clock.now += TTL / 2 - 1
    with pytest.raises(SessionNotFound):
        await sessions.end_session(id, ADA)


async def test_a_caller_can_end_so_many_sessions_in_a_time(sessions: Sessions, clock: ManualClock) -> None:
    """The store remembers each for a day."""
    ids = [sessions.open_session("2025-06-18", ADA) for _ in range(4)]
    for id in ids[:3]:
        await sessions.end_session(id, ADA)
    with pytest.raises(RateLimited, match="Too many session end requests, at most 3 per minute") as refused:
        await sessions.end_session(ids[3], ADA)
    assert refused.value.retry_after == 20
    assert await is_found(sessions, ids[3])
    other = somebody("bob", LOGIN, "read")
    await sessions.end_session(sessions.open_session("2025-06-18", other), other)
    clock.now += 20
    await sessions.end_session(ids[3], ADA)


async def test_an_id_of_another_secret_or_purpose_is_none(clock: ManualClock, sessions: Sessions) -> None:
    keys = SigningKeys((b"another secret of enough bytes",), RESOURCE)
    another = with_keys(keys, clock).open_session("2025-06-18", ADA)
    cursor = Signer(KEYS, "cursor", TTL, clock).sign("2025-06-18\n\n\nx", *ADA.identity)
    genuine = Signer(KEYS, "session", TTL, clock).sign("2025-06-18\n\n\nx", *ADA.identity)
    assert [await is_found(sessions, id) for id in (another, cursor, genuine)] == [False, False, True]


async def test_replicas_with_one_secret_know_each_other_s_sessions(clock: ManualClock, sessions: Sessions) -> None:
    replica = with_keys(KEYS, clock)
    assert await is_found(sessions, replica.open_session("2025-06-18", ADA))


async def test_ids_differ_at_the_same_moment(sessions: Sessions) -> None:
    assert len({sessions.open_session("2025-06-18", ADA) for _ in range(100)}) == 100


@each("id", ["", "x", "\u00fc", "=", "A" * 10_000])
async def test_what_is_no_id_is_not_found(sessions: Sessions, id: str) -> None:
    assert not await is_found(sessions, id)
