"""Debian's trytond through the gateway: JSON-RPC 1.0 to the letter, and bare results or pages to everybody else."""

import base64

import pytest

from tests.front import SURFACES, Surface, front
from tests.program import run, settings
from tests.services.launch import Service
from tests.services.test_services_answer import fetch

USER = "Basic " + base64.b64encode(b"admin:admin").decode()
CREDENTIALS = ("backend.credentials.mode=static", f"backend.credentials.value={USER}")
READ = "model.res.user.read"


def test_tryton_answers_what_is_not_1_0_with_a_page_or_a_bare_result(tryton: Service) -> None:
    question = {"jsonrpc": "2.0", "id": "1", "method": "system.listMethods"}
    assert fetch(tryton.url, question, Authorization=USER)[0] == 500
    status, text = fetch(tryton.url, {**question, "params": []}, Authorization=USER)
    assert (status, text[0]) == (200, "[")


@pytest.mark.parametrize("surface", SURFACES)
async def test_tryton_is_listed_and_called_by_1_0(tryton: Service, surface: Surface) -> None:
    async with front(tryton.url, *CREDENTIALS) as gateway:
        assert len(await gateway.tools()) > 1000
        called = await gateway.call(surface, READ, {"params": [[1], ["name", "login"], {}]})
        assert called.value == [{"id": 1, "name": "Administrator", "login": "admin"}]
        failed = await gateway.call(surface, READ, {"params": [[1], ["no_such_field"], {}]})
        assert "no_such_field" in failed.message
        assert "Traceback" not in failed.everything


async def test_without_credentials_check_says_that_they_are_needed(tryton: Service) -> None:
    ran = await run("check", *settings(tryton.url))
    assert ran.code == 3
    assert (
        "cause        It wants credentials, and none are sent (HTTP 401, access denied: it asks for Basic)" in ran.err
    )
