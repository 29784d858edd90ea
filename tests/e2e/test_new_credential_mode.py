"""A new mode of credentials is one file and its name in the registry: here on a copy of the package, as programs."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Final

import jsonschema
import pytest

from tests.fault.behaviours import error
from tests.fault.scripted import ScriptedBackend
from tests.program import Ran, run, settings

PACKAGE: Final = Path(__file__).parents[2] / "gateway"
SECRET: Final = "sesame-opens"
MODE: Final = '''\
"""A key of the gateway's own, in a header of the service's own."""

from gateway.backend.request_parts import RequestParts
from gateway.credentials.contract import Credential
from gateway.model import Caller


class ApiKey(Credential):
    name = "api_key"
    shows = "a key of the gateway's own"
    needs = (("client_secret",),)

    async def request_parts(self, caller: Caller) -> RequestParts:
        secret = self._settings.client_secret
        assert secret is not None
        return RequestParts({"X-Api-Key": f"{self._settings.client_id}.{secret.get_secret_value()}"})
'''
IMPORT: Final = "from gateway.credentials.api_key import ApiKey"
KEYED: Final = f"backend.credentials={{mode: api_key, client_id: gw, client_secret: {SECRET}}}"


class Copy:
    """The gateway with the new mode, as a program. ``touched`` are the lines that an existing file got."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        shutil.copytree(PACKAGE, folder / "gateway", ignore=shutil.ignore_patterns("__pycache__"))
        modes = folder / "gateway" / "credentials"
        (modes / "api_key.py").write_text(MODE)
        registry = modes / "__init__.py"
        before = registry.read_text()
        after = re.sub(r"(?m)^(    NoCredential,\n)", r"\1    ApiKey,\n", before)
        after = after.replace("from gateway.credentials.contract", f"{IMPORT}\nfrom gateway.credentials.contract", 1)
        registry.write_text(after)
        self.touched = [line for line in after.splitlines() if line not in before.splitlines()]

    async def run(self, *arguments: str) -> Ran:
        return await run(*arguments, PYTHONPATH=str(self._folder), PYTHONSAFEPATH="1")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return Copy(tmp_path_factory.mktemp("copy"))


def test_one_file_one_line_of_the_registry_and_its_import_are_all(copy: Copy) -> None:
    assert copy.touched == [IMPORT, "    ApiKey,"]


async def test_the_schema_and_the_commented_file_offer_it(copy: Copy) -> None:
    schema = json.loads((await copy.run("schema", "--format", "json")).out)
    jsonschema.validate({"backend": {"url": "http://h/", "credentials": {"mode": "api_key"}}}, schema)
    for form in ("json", "yaml"):
        assert "api_key: a key of the gateway's own." in (await copy.run("schema", "--format", form)).out


async def test_check_says_what_it_shows(copy: Copy, backend: ScriptedBackend) -> None:
    issuers = ("auth.issuers=[{issuer: 'http://127.0.0.1:9'}]", "server.public_url=https://gw.example.com")
    ran = await copy.run("check", *settings(backend.url, KEYED, *issuers))
    assert "calls send   a key of the gateway's own" in ran.out
    assert "listing      one for all callers, fetched with a key of the gateway's own" in ran.out
    assert SECRET not in ran.said


@pytest.mark.parametrize("command", [("serve",), ("check",), ("tools",), ("call", "add")], ids=" ".join)
async def test_a_missing_secret_of_it_is_a_fault_at_start(
    copy: Copy, backend: ScriptedBackend, command: tuple[str, ...]
) -> None:
    ran = await copy.run(*command, *settings(backend.url, "backend.credentials={mode: api_key, client_id: gw}"))
    assert ran.code == 2
    assert "backend.credentials: mode: api_key needs client_secret" in ran.err
    assert backend.requests == []


async def test_calls_and_the_listing_carry_its_header(copy: Copy, backend: ScriptedBackend) -> None:
    ran = await copy.run("call", "add", "--arg", "a=2", "--arg", "b=3", *settings(backend.url, KEYED))
    assert (ran.code, json.loads(ran.out)) == (0, {"sum": 5})
    assert {request.headers.get("X-Api-Key") for request in backend.requests} == {f"gw.{SECRET}"}
    assert backend.calls("add") == 1


async def test_its_secret_is_taken_out_of_what_the_service_answers(copy: Copy, backend: ScriptedBackend) -> None:
    backend.on("add", error(-32000, f"no good: {SECRET}"))
    ran = await copy.run("call", "add", "--arg", "a=2", "--arg", "b=3", *settings(backend.url, KEYED))
    assert ran.code == 1
    assert "no good: " in ran.said
    assert SECRET not in ran.said
