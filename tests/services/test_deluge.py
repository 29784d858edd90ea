"""Debian's deluge-web through the gateway: it wants ``params`` always, and answers as JSON-RPC 1.0 has it."""

import json
import urllib.request
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.front import SURFACES, Surface, front
from tests.presets import preset
from tests.services.methods_file import written_and_read
from tests.services.process import Service
from tests.services.test_services_answer import call


def session_of(deluge: Service) -> str:
    """The cookie of a session that is logged in."""
    body = json.dumps({"id": 1, "method": "auth.login", "params": ["deluge"]}).encode()
    request = urllib.request.Request(deluge.url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return str(answer.headers["Set-Cookie"]).partition(";")[0]


def test_deluge_answers_no_question_without_params(deluge: Service) -> None:
    answer = call(deluge, "system.listMethods")
    assert "missing param 'params'" in answer["error"]["message"]
    assert "jsonrpc" not in answer


@pytest.mark.parametrize("surface", SURFACES)
async def test_deluge_is_listed_and_called_from_its_url_alone(deluge: Service, surface: Surface) -> None:
    async with front(deluge.url) as gateway:
        tools = await gateway.tools()
        assert {"web_get_hosts", "web_add_torrents", "auth_check_session"} <= tools.keys()
        assert (await gateway.call(surface, "auth_check_session", {})).value is False
        assert (await gateway.call(surface, "web_get_hosts", {})).message == "Not authenticated"


async def test_a_call_of_deluge_comes_to_what_a_session_may(deluge: Service) -> None:
    shown = f"backend.credentials.send.headers.Cookie={session_of(deluge)}"
    async with front(deluge.url, "backend.credentials.mode=static", shown) as gateway:
        ((_, host, port, _),) = (await gateway.call("modern", "web_get_hosts", {})).value
        assert (host, port) == ("127.0.0.1", 58846)
        assert (await gateway.call("modern", "web_set_config", {"params": [{"theme": "gray"}]})).value is None
        assert (await gateway.call("modern", "web_get_config", {})).value["theme"] == "gray"


async def test_deluge_is_logged_in_to_and_again_when_the_session_is_gone(deluge: Service, tmp_path: Path) -> None:
    with capture_logs() as lines:
        async with front(deluge.url, file=preset(tmp_path, "Deluge", deluge.url, "deluge")) as gateway:
            for _ in range(2):
                ((_, host, port, _),) = (await gateway.call("modern", "web_get_hosts", {})).value
                assert (host, port) == ("127.0.0.1", 58846)
                assert (await gateway.call("modern", "auth_delete_session", {})).value is True
    assert [line["method"] for line in lines if line["event"].startswith("logged in")] == ["auth.login"] * 2


async def test_the_methods_file_of_a_service_that_wants_params_names_the_knob(deluge: Service, tmp_path: Path) -> None:
    needed = ("backend.version=2.0-with-params",)
    written = await written_and_read(deluge.url, tmp_path / "methods.yaml", needed=needed)
    assert "  web.connect:\n    structure: by-position\n    params: null\n    # description: " in written
