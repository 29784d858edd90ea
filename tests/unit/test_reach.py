"""Connections go to the address that was judged, whatever a name resolves to next."""

from __future__ import annotations

import pytest

from gateway.http_client.resolver import Reach
from gateway.http_client.response import ConnectFailed
from gateway.http_client.session import Outbound
from tests.fault.scripted import ScriptedBackend
from tests.resolving import Names

NAME = "idp.example.com"


def refuses(address: str) -> str | None:
    """Only 127.0.0.1 may be connected to."""
    return None if address == "127.0.0.1" else "leads astray"


@pytest.fixture
async def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    return Names(monkeypatch)


async def status(url: str, reach: Reach) -> int:
    outbound = Outbound(reach=reach)
    try:
        return (await outbound.request("GET", url, b"", {}, timeout=5, max_bytes=1000)).status
    finally:
        await outbound.close()


async def test_what_was_judged_is_what_is_connected_to(backend: ScriptedBackend, names: Names) -> None:
    names[NAME] = [["127.0.0.1"], ["127.0.0.2"]]
    assert await status(f"http://{NAME}:{backend.port}/", Reach(refuses)) == 404
    assert names.asked == [NAME], "a second look-up may have another answer"


async def test_the_reason_is_told_with_the_remedy(names: Names) -> None:
    names[NAME] = [["127.0.0.2"]]
    with pytest.raises(
        ConnectFailed, match=r"^its name leads astray; if that is intended, name the address in the sett"
    ):
        await status(f"http://{NAME}:1/", Reach(refuses))


async def test_of_several_addresses_only_good_ones_are_connected_to(backend: ScriptedBackend, names: Names) -> None:
    names[NAME] = [["127.0.0.2", "::1", "127.0.0.1"]]
    assert await status(f"http://{NAME}:{backend.port}/", Reach(refuses)) == 404
    assert backend.connections == 1


async def test_a_name_that_the_operator_gave_may_lead_anywhere_at_its_own_port_alone(
    backend: ScriptedBackend, names: Names
) -> None:
    names[NAME] = [["127.0.0.1"]]
    url = f"http://{NAME}:{backend.port}/other"
    nothing = "leads astray"
    assert await status(url, Reach(lambda _: nothing, frozenset((f"http://{NAME}:{backend.port}/idp",)))) == 404
    with pytest.raises(ConnectFailed, match="astray"):
        await status(url, Reach(lambda _: nothing, frozenset((f"http://{NAME}/idp",))))


async def test_a_name_that_nobody_has_said_anything_about_is_resolved_as_ever(backend: ScriptedBackend) -> None:
    assert await status(f"http://localhost:{backend.port}/", Reach(refuses)) == 404
