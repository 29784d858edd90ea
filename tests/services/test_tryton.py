"""Debian's trytond through the gateway: JSON-RPC 1.0 to the letter, and bare results or pages to everybody else."""

import base64
import sqlite3
from contextlib import closing
from pathlib import Path

from structlog.testing import capture_logs

from tests.front import SURFACES, front
from tests.presets import preset
from tests.program import run, settings
from tests.services.process import Service
from tests.services.test_services_answer import fetch

USER = "Basic " + base64.b64encode(b"admin:admin").decode()
CREDENTIALS = ("backend.credentials.mode=static", f"backend.credentials.send.headers.Authorization={USER}")
READ = "model.res.user.read"


def test_tryton_answers_what_is_not_1_0_with_a_page_or_a_bare_result(tryton: Service) -> None:
    question = {"jsonrpc": "2.0", "id": "1", "method": "system.listMethods"}
    assert fetch(tryton.url, question, Authorization=USER)[0] == 500
    status, text = fetch(tryton.url, {**question, "params": []}, Authorization=USER)
    assert (status, text[0]) == (200, "[")


async def test_tryton_is_listed_and_called_by_1_0(tryton: Service) -> None:
    async with front(tryton.url, *CREDENTIALS, "catalog.search=false") as gateway:
        assert len(await gateway.tools()) > 1000
        for surface in SURFACES:
            called = await gateway.call(surface, READ, {"params": [[1], ["name", "login"], {}]})
            assert called.value == [{"id": 1, "name": "Administrator", "login": "admin"}], surface
            failed = await gateway.call(surface, READ, {"params": [[1], ["no_such_field"], {}]})
            assert "no_such_field" in failed.message, surface
            assert "Traceback" not in failed.everything, surface


async def test_a_model_that_reads_a_little_finds_what_it_needs_among_a_thousand(tryton: Service) -> None:
    async with front(tryton.url, *CREDENTIALS) as gateway:
        assert "There are 1230 tools, the largest groups" in (await gateway.tools())["search_tools"]["description"]
        found = (await gateway.call("modern", "search_tools", {"query": "read a user"})).value
        assert (
            "model_res_user_read" in found["groups"][0]["tools"] or found["tools"][0]["name"] == "model_res_user_read"
        )
        inner = {"name": "model_res_user_read", "arguments": {"params": [[1], ["login"], {}]}}
        assert (await gateway.call("modern", "call_tool", inner)).value == [{"id": 1, "login": "admin"}]


async def test_without_credentials_check_says_that_they_are_needed(tryton: Service) -> None:
    ran = await run("check", *settings(tryton.url))
    assert ran.code == 3
    assert (
        "cause        It wants credentials, and none are sent (HTTP 401, access denied: it asks for Basic)" in ran.err
    )


async def test_tryton_is_logged_in_to_and_again_when_the_session_is_gone(tryton: Service, tmp_path: Path) -> None:
    with capture_logs() as lines:
        async with front(tryton.url, file=preset(tmp_path, "Tryton", tryton.url, "admin")) as gateway:
            assert [*await gateway.tools()] == ["call_tool", "search_tools"]
            for _ in range(2):
                read = await gateway.call("modern", READ, {"params": [[1], ["name", "login"], {}]})
                assert read.value == [{"id": 1, "name": "Administrator", "login": "admin"}]
                with closing(sqlite3.connect(tryton.folder / "demo.sqlite")) as database, database:
                    assert database.execute("DELETE FROM ir_session").rowcount == 1
    assert [line["method"] for line in lines if line["event"].startswith("logged in")] == ["common.db.login"] * 2


async def test_tryton_takes_a_user_and_a_password_with_each_call(tryton: Service) -> None:
    async with front(tryton.url, "backend.credentials={mode: basic, user: admin, password: admin}") as gateway:
        read = await gateway.call("modern", READ, {"params": [[1], ["login"], {}]})
        assert read.value == [{"id": 1, "login": "admin"}]
