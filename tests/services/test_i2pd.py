"""Debian's i2pd, which takes integers alone for ids, by its configuration in docs/credentials.md."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.front import SURFACES, front
from tests.presets import preset
from tests.services import launch
from tests.services.launch import LOGIN_PASSWORD
from tests.services.process import Service
from tests.tls import HOST, Authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("i2pd"))


@pytest.fixture(scope="module")
def i2pd(authority: Authority) -> Iterator[Service]:
    with launch.i2pd(authority.server_pem(HOST)) as service:
        yield service


def test_a_text_comes_back_without_its_quotes(i2pd: Service, authority: Authority) -> None:
    connection = http.client.HTTPSConnection(HOST, i2pd.port, context=ssl.create_default_context(cafile=authority.file))
    connection.request("POST", "/", '{"jsonrpc":"2.0","id":"c1","method":"Echo","params":{"Echo":"hi"}}')
    assert connection.getresponse().read() == b'{"id":c1,"result":{"Result":"hi"},"jsonrpc":"2.0"}'


async def test_it_is_logged_in_at_and_called_with_integers(i2pd: Service, authority: Authority, tmp_path: Path) -> None:
    file = preset(tmp_path, "i2pd", i2pd.url, LOGIN_PASSWORD)
    async with front(i2pd.url, f"backend.tls.ca_file={authority.file}", file=file) as gateway:
        assert sorted(await gateway.tools()) == ["Echo", "RouterInfo"]
        for surface in SURFACES:
            assert (await gateway.call(surface, "Echo", {"Echo": "hi"})).value == {"Result": "hi"}
            asked = {"i2p.router.version": "", "i2p.router.status": ""}
            assert (await gateway.call(surface, "RouterInfo", asked)).value.keys() == asked.keys()


async def test_a_login_with_a_text_for_its_id_names_the_knob(
    i2pd: Service, authority: Authority, tmp_path: Path
) -> None:
    file = preset(tmp_path, "i2pd", i2pd.url, LOGIN_PASSWORD)
    knobs = (f"backend.tls.ca_file={authority.file}", "backend.ids=auto")
    with capture_logs() as lines:
        async with front(i2pd.url, *knobs, file=file) as gateway:
            assert (await gateway.call("modern", "Echo", {"Echo": "hi"})).status == 503
    reason = next(line["reason"] for line in lines if line["event"] == "no token for the backend")
    assert reason == (
        "login: HTTP 200; it does not quote the id: set backend.ids to integer; "
        "no text or integer at $.result.Token, which find.token needs"
    )
