"""HTTP over a Unix socket, by each HTTP client that may be chosen, and by the gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.http_client.choice import HttpClient
from gateway.http_client.lean import LeanTransport
from gateway.http_client.response import ConnectFailed
from gateway.http_client.session import Outbound
from tests.contract.http_clients import CALL
from tests.contract.transports import UnixHttpStand
from tests.front import front


@pytest.fixture
async def stand() -> AsyncIterator[UnixHttpStand]:
    made = UnixHttpStand()
    await made.open()
    yield made
    await made.close()


def path_of(stand: UnixHttpStand) -> str:
    return stand.url.split(":")[1]


@pytest.mark.parametrize("kind", [LeanTransport, Outbound])
async def test_each_client_sends_all_requests_through_the_socket(
    stand: UnixHttpStand, kind: type[LeanTransport] | type[Outbound]
) -> None:
    client: HttpClient = kind(socket=path_of(stand))
    for _ in range(2):
        answer = await client.request("POST", "http://localhost/rpc", CALL, {}, timeout=10, max_bytes=10_000)
        assert answer.status == 200
    assert stand.listener.connections == 1
    await client.close()


@pytest.mark.parametrize("kind", [LeanTransport, Outbound])
async def test_a_socket_that_is_not_there_is_named_as_such(
    tmp_path: Path, kind: type[LeanTransport] | type[Outbound]
) -> None:
    client: HttpClient = kind(socket=str(tmp_path / "none"))
    with pytest.raises(ConnectFailed, match=r"^its socket is not there$"):
        await client.request("POST", "http://localhost/rpc", CALL, {}, timeout=10, max_bytes=10_000)
    await client.close()


@pytest.mark.parametrize(
    ("knob", "header"),
    [
        ("{mode: basic, user: ann, password: sesame}", "Authorization"),
        ("{mode: digest, user: ann, password: sesame}", None),  # answers a challenge, and there is none
        ("{mode: static, send: {headers: {X-Api-Key: sesame-opens}}}", "X-Api-Key"),
    ],
)
async def test_a_call_arrives_with_whatever_credential(
    stand: UnixHttpStand, tmp_path: Path, knob: str, header: str | None
) -> None:
    (tmp_path / "methods.yaml").write_text("methods: [{name: echo, params: [{name: a}]}]")
    listing = f"backend.listing={{dialect: static, file: {tmp_path / 'methods.yaml'}}}"
    async with front(stand.url, listing, f"backend.credentials={knob}") as gateway:
        assert (await gateway.call("rest", "echo", {"a": 5})).value == {"a": 5}
    (request,) = stand.requests
    assert request.path == "/rpc"
    assert header is None or header in request.headers
