"""The loop that asks a model, against a server that says what a test wants it to say."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from lab.agents.model import MAX_TURNS, Endpoint, ModelFailed, Talk, ask
from lab.agents.questions import Question
from lab.agents.table import table_of_talks
from tests.fault.scripted import ScriptedBackend
from tests.front import front

QUESTION = Question("scripted", "Add 2 and 3.", "add", {"a": 2, "b": 3}, {"sum": 5})
SCHEMAS = {"add": {"type": "object", "required": ["a", "b"]}}
Script = list[dict[str, Any] | str]


def calling(name: str, arguments: Any) -> dict[str, Any]:
    """Return a message that calls a tool. Text for arguments is sent as it is."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    call = {"id": f"call-{name}", "type": "function", "function": {"name": name, "arguments": text}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


class ScriptedModel:
    """Respond with one message of the script after the other, and keep what was sent. The last one is repeated."""

    def __init__(self) -> None:
        self.script: Script = []
        self.bodies: list[Any] = []
        self.keys: list[str | None] = []

    async def complete(self, request: web.Request) -> web.Response:
        self.keys.append(request.headers.get("Authorization"))
        self.bodies.append(await request.json())
        message = self.script[min(len(self.bodies), len(self.script)) - 1]
        if isinstance(message, str):
            return web.Response(text=message, status=500)
        return web.json_response({"choices": [{"message": message}], "usage": {"prompt_tokens": 100}})


@pytest.fixture
async def model(aiohttp_server: Callable[..., Any]) -> tuple[ScriptedModel, Endpoint]:
    scripted = ScriptedModel()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", scripted.complete)
    server = await aiohttp_server(app)
    return scripted, Endpoint(str(server.make_url("/v1/")), "scripted-1", "k3y")


async def talk(endpoint: Endpoint, *settings: str, question: Question = QUESTION) -> Talk:
    async with (
        ScriptedBackend() as backend,
        front(backend.url, *settings) as gateway,
        aiohttp.ClientSession() as session,
    ):
        return await ask(session, endpoint, gateway, question, SCHEMAS)


DONE = {"role": "assistant", "content": "Done."}


async def test_a_right_call_answers_the_question(model: tuple[ScriptedModel, Endpoint]) -> None:
    scripted, endpoint = model
    scripted.script = [calling("add", {"a": 2, "b": 3})]
    assert await talk(endpoint) == Talk(QUESTION, True, 1, 100)
    (body,) = scripted.bodies
    assert scripted.keys == ["Bearer k3y"]
    assert body["model"] == "scripted-1"
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert "add" in [tool["function"]["name"] for tool in body["tools"]]
    assert all(tool["function"]["parameters"]["type"] == "object" for tool in body["tools"])


async def test_what_a_tool_found_and_what_a_call_was_told_go_back_to_the_model(
    model: tuple[ScriptedModel, Endpoint],
) -> None:
    scripted, endpoint = model
    scripted.script = [
        calling("search_tools", {"query": "add numbers"}),
        calling("call_tool", {"name": "add", "arguments": {"a": 2}}),
        calling("call_tool", {"name": "add", "arguments": {"a": 2, "b": 3}}),
    ]
    assert await talk(endpoint, "catalog.search=true") == Talk(QUESTION, True, 3, 300)
    assert [tool["function"]["name"] for tool in scripted.bodies[0]["tools"]] == ["call_tool", "search_tools"]
    found, told = (json.dumps(scripted.bodies[-1]["messages"][place]) for place in (3, 5))
    assert "call-search_tools" in found
    assert "inputSchema" in found
    assert "is a required property" in told


@pytest.mark.parametrize(
    "script",
    [
        [DONE],
        [calling("add", {"a": 2, "b": 4}), DONE],
        [calling("echo", {"a": 2, "b": 3}), DONE],
        [calling("call_tool", {}), DONE],
        [calling("add", "{"), DONE],
        [calling("add", "[]"), DONE],
    ],
)
async def test_another_call_and_none_answer_nothing(model: tuple[ScriptedModel, Endpoint], script: Script) -> None:
    scripted, endpoint = model
    scripted.script = script
    assert not (await talk(endpoint)).is_right


async def test_a_model_that_never_ends_is_stopped(model: tuple[ScriptedModel, Endpoint]) -> None:
    scripted, endpoint = model
    scripted.script = [calling("fail", {})]
    assert (await talk(endpoint)).calls == MAX_TURNS


async def test_where_the_service_cannot_answer_the_schema_does(model: tuple[ScriptedModel, Endpoint]) -> None:
    scripted, endpoint = model
    question = Question("scripted", "Add.", "add", {"a": 2, "b": 3}, is_called=False)
    for arguments, right in (({"a": 1, "b": 1}, True), ({"a": 1}, False)):
        scripted.script = [calling("add", arguments), DONE]
        scripted.bodies.clear()
        assert (await talk(endpoint, question=question)).is_right is right


@pytest.mark.parametrize("text", ["overloaded", '{"choices": []}', '{"choices": [{"message": null}]}'])
async def test_an_api_that_fails_is_quoted(model: tuple[ScriptedModel, Endpoint], text: str) -> None:
    scripted, endpoint = model
    scripted.script = [text]
    with pytest.raises(ModelFailed, match="responded with 500: "):
        await talk(endpoint)


def test_what_a_model_answered_is_a_table() -> None:
    talks = [Talk(QUESTION, True, 2, 300), Talk(QUESTION, False, 8, 900)]
    assert "| Scripted | 1 of 2 | 5.0 | 600 |" in table_of_talks(talks)
