"""A new mode of authentication is a row of the registry: here on a copy of the package, as a program.

What callers show in a mode without issuers' tokens is never sent to the service, and without code that checks it nobody
is let in.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Final, get_args

import aiohttp
import pytest

from gateway.settings.auth import AUTH_MODES, Auth
from tests.fault.scripted import ScriptedBackend
from tests.program import Program, run, settings

PACKAGE: Final = Path(__file__).parents[2] / "gateway"
ROW: Final = '    "tickets": AuthMode(authenticates=True, has_issuers=False, has_keys=False),\n'
KEY: Final = "a-callers-own-key-0123456789"


@pytest.fixture(scope="module")
def environ(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the environment of a gateway that has another mode."""
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(PACKAGE, folder / "gateway", ignore=shutil.ignore_patterns("__pycache__"))
    file = folder / "gateway" / "settings" / "auth.py"
    text = file.read_text().replace('mode: Literal["jwt", ', 'mode: Literal["tickets", "jwt", ')
    text, number = re.subn(r'(?m)^(    "jwt": AuthMode\()', rf"{ROW}\1", text)
    assert number == 1
    file.write_text(text)
    return {"PYTHONPATH": str(folder), "PYTHONSAFEPATH": "1"}


def test_the_registry_has_the_modes_that_the_knob_offers() -> None:
    assert get_args(Auth.model_fields["mode"].annotation) == tuple(AUTH_MODES)


def test_no_other_file_asks_for_a_mode_by_its_name() -> None:
    named = re.compile(r"""auth\.mode\s*(==|!=|in)|\bmode\s*(==|!=)\s*["'](off|jwt|keys)["']""")
    files = [path for path in PACKAGE.rglob("*.py") if named.search(path.read_text())]
    assert files == []


async def test_what_callers_show_in_another_mode_never_reaches_the_service(
    environ: dict[str, str], backend: ScriptedBackend
) -> None:
    knobs = settings(backend.url, "auth.mode=tickets", "auth.anonymous=list")
    async with Program("serve", *knobs, environ=environ) as program, aiohttp.ClientSession() as session:
        await program.logged("listing refreshed")
        base = f"http://127.0.0.1:{(await program.logged('gateway started'))['port']}/mcp/tools"
        headers = {"Authorization": f"Bearer {KEY}"}
        async with session.get(f"{base}/list", headers=headers) as response:
            assert response.status == 200
        body = {"name": "add", "arguments": {"a": 2, "b": 3}}
        async with session.post(f"{base}/invoke", json=body, headers=headers) as response:
            assert response.status == 401
    assert backend.requests
    assert backend.calls("add") == 0
    assert not any(KEY in str(request.headers) for request in backend.requests)


async def test_check_says_that_nothing_of_the_caller_is_sent(environ: dict[str, str], backend: ScriptedBackend) -> None:
    ran = await run("check", *settings(backend.url, "auth.mode=tickets"), **environ)
    assert "the caller's own token" not in ran.said
    refused = await run(
        "check", *settings(backend.url, "auth.mode=tickets", "backend.credentials.mode=same_resource"), **environ
    )
    assert refused.code == 2
    assert "needs callers' tokens, and with auth.mode: tickets there are none" in refused.err
