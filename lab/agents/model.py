"""Ask a model the same questions, over any API that is compatible with OpenAI's chat completions.

The model is given the tools of the gateway's list, as a client would give them, and its calls are made. A question is
answered once the wanted tool was called, and the service gave the right result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import jsonschema

from lab.agents.listings import Listing
from lab.agents.measure import QUIET, call_text, is_right
from lab.agents.questions import Question
from tests.front import Front, front

MAX_TURNS: Final = 8
"""Responses of the model to one question, after which it has failed."""
_RESULT: Final = 20_000
"""Characters of a result that the model is given."""
_TIMEOUT: Final = aiohttp.ClientTimeout(total=120)
_INSTRUCTIONS: Final = "Do what the user asks by calling tools. Nobody can answer questions. Say done when it is done."


@dataclass(frozen=True)
class Endpoint:
    """Hold where a model is: the URL before ``/chat/completions``, its name, and the key, empty where it needs none."""

    url: str
    model: str
    key: str = ""


@dataclass(frozen=True)
class Talk:
    """Hold what a question came to: whether it was answered, how many tools were called, and the tokens of all prompts,
    as the API counted them."""

    question: Question
    is_right: bool
    calls: int
    tokens: int


class ModelFailed(Exception):
    """The API did not respond with a message; the text says what came instead."""


async def ask_all(endpoint: Endpoint, listing: Listing, questions: Sequence[Question]) -> list[Talk]:
    """Start the service, ask a model each question, and stop it. Raise :class:`ModelFailed`."""
    with listing.start() as service:
        async with (
            front(service.url, QUIET, *listing.settings) as gateway,
            aiohttp.ClientSession(timeout=_TIMEOUT) as session,
        ):
            schemas = await _schemas(service.url, listing)
            return [await ask(session, endpoint, gateway, question, schemas) for question in questions]


async def _schemas(url: str, listing: Listing) -> dict[str, Any]:
    async with front(url, QUIET, "catalog.search=false", *listing.settings) as gateway:
        return {name: tool["inputSchema"] for name, tool in (await gateway.tools()).items()}


async def ask(
    session: aiohttp.ClientSession,
    endpoint: Endpoint,
    gateway: Front,
    question: Question,
    schemas: Mapping[str, Any],
) -> Talk:
    """Ask one question, and make the calls that the model wants until it has the right result or gives up."""
    tools = [
        {"type": "function", "function": {key: tool[own] for key, own in _MEMBERS.items() if own in tool}}
        for tool in (await gateway.tools()).values()
    ]
    messages: list[Any] = [
        {"role": "system", "content": _INSTRUCTIONS},
        {"role": "user", "content": question.text},
    ]
    calls = tokens = 0
    for _ in range(MAX_TURNS):
        answer = await _complete(session, endpoint, {"model": endpoint.model, "messages": messages, "tools": tools})
        tokens += answer.get("usage", {}).get("prompt_tokens", 0)
        message = answer["choices"][0]["message"]
        messages.append(message)
        for wanted in message.get("tool_calls") or ():
            calls += 1
            right, text = await _make(gateway, question, wanted["function"], schemas)
            if right:
                return Talk(question, True, calls, tokens)
            messages.append({"role": "tool", "tool_call_id": wanted["id"], "content": text[:_RESULT]})
        if not message.get("tool_calls"):
            break
    return Talk(question, False, calls, tokens)


_MEMBERS: Final = {"name": "name", "description": "description", "parameters": "inputSchema"}


async def _complete(session: aiohttp.ClientSession, endpoint: Endpoint, body: Mapping[str, Any]) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {endpoint.key}"} if endpoint.key else {}
    url = f"{endpoint.url.rstrip('/')}/chat/completions"
    async with session.post(url, json=body, headers=headers) as response:
        text = await response.text()
    try:
        answer: dict[str, Any] = json.loads(text)
        _ = answer["choices"][0]["message"].get("tool_calls")
    except (ValueError, LookupError, TypeError, AttributeError):
        raise ModelFailed(f"{url} responded with {response.status}: {text[:400]}") from None
    return answer


async def _make(
    gateway: Front, question: Question, wanted: Mapping[str, Any], schemas: Mapping[str, Any]
) -> tuple[bool, str]:
    """Make a call that a model wants. Return whether it answers the question, and what the model is shown of it."""
    try:
        arguments = json.loads(wanted["arguments"] or "{}")
    except ValueError as error:
        return False, f"The arguments are not JSON: {error}"
    if not isinstance(arguments, dict):
        return False, "The arguments are no object"
    called = await gateway.call("modern", wanted["name"], arguments)
    name, inner = wanted["name"], arguments
    if name == "call_tool":
        name, inner = arguments.get("name"), arguments.get("arguments") or {}
    if name != question.name:
        return False, call_text(called)
    if not question.is_called:
        return jsonschema.Draft202012Validator(schemas[question.name]).is_valid(inner), call_text(called)
    return is_right(question, called), call_text(called)
