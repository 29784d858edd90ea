"""Debian's electrum through the gateway: a list of names, which says nothing of their arguments."""

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.front import SURFACES, Surface, front
from tests.program import run, settings
from tests.services import launch
from tests.services.methods_file import written_and_read
from tests.services.process import Service

USER = "Basic " + base64.b64encode(b"u:p").decode()
CREDENTIALS = ("backend.credentials.mode=static", f"backend.credentials.send.headers.Authorization={USER}")
ADDRESS = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080"


@pytest.fixture(scope="module")
def electrum() -> Iterator[Service]:
    with launch.electrum() as service:
        yield service


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("params", [[ADDRESS], {"address": ADDRESS}], ids=["by position", "by name"])
async def test_what_is_but_a_name_is_called_in_the_structure_that_the_caller_chooses(
    electrum: Service, surface: Surface, params: object
) -> None:
    async with front(electrum.url, *CREDENTIALS) as gateway:
        tools = await gateway.tools()
        assert tools["validateaddress"]["inputSchema"]["properties"]["params"]["type"] == ["array", "object"]
        assert (await gateway.call(surface, "validateaddress", {"params": params})).value is True
        assert (await gateway.call(surface, "version_info", {})).value["electrum.version"]


async def test_check_says_that_parameters_are_unknown(electrum: Service) -> None:
    ran = await run("check", *settings(electrum.url, *CREDENTIALS))
    assert ran.code == 0, ran.said
    assert "dialect      plain" in ran.out
    assert "parameters unknown, taken as one argument, params" in ran.out


async def test_a_methods_file_of_names_alone_leaves_the_params_open(electrum: Service, tmp_path: Path) -> None:
    written = await written_and_read(electrum.url, tmp_path / "methods.yaml", *CREDENTIALS)
    assert "  addtransaction:\n    params: null\n" in written
    assert "    # params: which parameters it has; null is unknown, {} is none\n" in written
