"""What is of one protected resource is worth nothing at another, though both have the same secret and the same store
(design: "Every signing purpose and store key contains the resource")."""

from __future__ import annotations

from typing import Final

import pytest

from gateway.auth.compact import InvalidProof
from gateway.auth.dpop import ProofChecker
from gateway.config.source import load_settings
from gateway.errors import InvalidParams, RateLimited, SessionNotFound
from gateway.invocation.input_requests import CONFIRM, InputRequests
from gateway.limits import Budget
from gateway.mcp.operations import cursor_signer
from gateway.mcp.sessions import Sessions
from gateway.model import AccessToken, Binding, Caller, CallExtras, InputRequest, Principal, Structure, Tool
from gateway.settings import Settings
from gateway.signing import SigningKeys
from gateway.store import ResourceStore
from gateway.store.memory import MemoryStore
from tests.authorization.forge import dpop_proof
from tests.authorization.keys import ec_key
from tests.each import each
from tests.front import ground

SECRETS: Final = (b"a secret of sixteen bytes and more",)
ORIGIN: Final = "https://gateway.example.com"
CRM, SHOP = f"{ORIGIN}/crm/mcp", f"{ORIGIN}/shop/mcp"
ADA: Final = Caller(
    principal=Principal(
        "https://login.example.com", "ada", "app", frozenset({"read"}), 2_000_000_000.0, AccessToken("t")
    )
)
TOOL: Final = Tool("drop", "db.drop", "Drop a table", {}, Binding("db.drop", Structure.BY_NAME), confirm=True)
KEY: Final = ec_key("proof")


class Mount:
    """What one resource makes of the secret and the store that all share."""

    def __init__(self, resource: str, shared: MemoryStore) -> None:
        keys = SigningKeys(SECRETS, resource)
        store = ResourceStore(shared, keys)
        self.budget = Budget(store, "discovery", "1/hour")
        self.cursors = cursor_signer(keys)
        self.sessions = Sessions(keys, store, Budget(store, "session end", "10/hour"))
        self.rounds = InputRequests(keys, store)
        self.proofs = ProofChecker(ORIGIN, store)

    async def agree(self, state: str) -> InputRequest | None:
        read = self.rounds.read_state(state, ADA, TOOL, {})
        return await self.rounds.request_consent(
            CallExtras({CONFIRM: {"action": "accept"}}, capabilities={"elicitation": {}}), read, ADA, TOOL, {}
        )

    async def state(self) -> str:
        ask = await self.rounds.request_consent(CallExtras({}, capabilities={"elicitation": {}}), None, ADA, TOOL, {})
        assert ask is not None
        assert ask.state is not None
        return ask.state

    async def prove(self, proof: str) -> None:
        await self.proofs.check_proof(proof, method="GET", path="/x", token="token", bound_to=KEY.thumbprint)


@pytest.fixture
def mounts() -> tuple[Mount, Mount, Mount]:
    """One resource, a replica of it, and another resource."""
    shared = MemoryStore()
    return Mount(CRM, shared), Mount(CRM, shared), Mount(SHOP, shared)


def test_a_cursor_of_one_resource_is_none_at_another(mounts: tuple[Mount, Mount, Mount]) -> None:
    one, replica, other = mounts
    cursor = one.cursors.sign("alpha", *ADA.identity)
    assert replica.cursors.verify(cursor, *ADA.identity) == "alpha"
    assert other.cursors.verify(cursor, *ADA.identity) is None


async def test_a_session_of_one_resource_is_none_at_another(mounts: tuple[Mount, Mount, Mount]) -> None:
    one, replica, other = mounts
    id = one.sessions.open_session("2025-11-25", ADA)
    assert (await replica.sessions.read_session(id, ADA)).revision == "2025-11-25"
    for refused in (other.sessions.read_session, other.sessions.end_session):
        with pytest.raises(SessionNotFound):
            await refused(id, ADA)
    await one.sessions.read_session(id, ADA)
    await replica.sessions.end_session(id, ADA)
    with pytest.raises(SessionNotFound):
        await one.sessions.read_session(id, ADA)


async def test_a_state_of_one_resource_is_none_at_another(mounts: tuple[Mount, Mount, Mount]) -> None:
    one, replica, other = mounts
    state = await one.state()
    with pytest.raises(InvalidParams, match="not valid"):
        await other.agree(state)
    assert await replica.agree(state) is None
    with pytest.raises(InvalidParams, match="used before"):
        await one.agree(state)


async def test_a_proof_that_one_resource_used_is_no_marker_at_another(mounts: tuple[Mount, Mount, Mount]) -> None:
    one, replica, other = mounts
    proof = dpop_proof(KEY, "GET", f"{ORIGIN}/x", "token")
    await one.prove(proof)
    with pytest.raises(InvalidProof, match="used before"):
        await replica.prove(proof)
    await other.prove(proof)


async def test_what_a_caller_spent_at_one_resource_is_not_spent_at_another(
    mounts: tuple[Mount, Mount, Mount],
) -> None:
    one, replica, other = mounts
    await one.budget.spend(Caller("192.0.2.1"))
    with pytest.raises(RateLimited):
        await replica.budget.spend(Caller("192.0.2.1"))
    await other.budget.spend(Caller("192.0.2.1"))


def settings(*knobs: str, url: str = "http://crm.example.com/jsonrpc") -> Settings:
    return load_settings(None, ground(url, *knobs), environ={})


JWT: Final = (
    "auth.mode=jwt",
    "auth.issuers=[{issuer: 'https://login.example.com'}]",
    "backend.credentials.mode=none",
)


@each(
    ("knobs", "mount"),
    [
        ((), "http://crm.example.com/jsonrpc"),
        (("server.port=8081",), "http://crm.example.com/jsonrpc"),
        ((f"server.public_url={ORIGIN}/crm",), CRM),
        ((f"server.public_url={ORIGIN}/crm", *JWT), CRM),
        (("server.port=8081", *JWT), "http://127.0.0.1:8081/mcp"),
    ],
)
def test_the_resource_identifies_a_mount_and_where_there_is_none_the_service(
    knobs: tuple[str, ...], mount: str
) -> None:
    assert settings(*knobs).by_mount[""].mount_id == mount
