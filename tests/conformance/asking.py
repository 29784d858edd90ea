"""The methods that ask the client before they answer: multi round trips (2026-07-28, SEP-2322).

A method asks with ``{resultType: "input_required", inputRequests, requestState}``. The call then comes again, with
``inputResponses`` and the ``requestState`` among its params; ``clientCapabilities`` tell what may be asked.
"""

from __future__ import annotations

import json
from typing import Any, Final

from tests.conformance.method import Failure, JsonObject, Methods, Params

METHODS: Final = Methods()


@METHODS.add("test_input_required_result_elicitation")
async def ask_elicitation(params: Params) -> JsonObject | str:
    """Asks for a name and greets it."""
    name = _accepted(params, "user_name").get("name")
    if not isinstance(name, str):
        return _asking(user_name=_elicitation("What is your name?", name="string"))
    return f"Hello, {name}!"


@METHODS.add("test_input_required_result_sampling")
async def ask_sampling(params: Params) -> JsonObject | str:
    """Asks the client's model for a capital."""
    text = _sampled(params, "capital_question")
    return text or _asking(capital_question=_sampling("What is the capital of France?"))


@METHODS.add("test_input_required_result_list_roots")
async def ask_list_roots(params: Params) -> JsonObject | str:
    """Asks for the client's roots and names them."""
    roots = _roots(params, "client_roots")
    return _asking(client_roots=_listing_roots()) if roots is None else f"Roots: {', '.join(roots)}"


@METHODS.add("test_input_required_result_request_state")
async def request_state(params: Params) -> JsonObject | str:
    """Asks for a confirmation, and insists on its state."""
    if not _accepted(params, "confirm").get("ok"):
        return _asking("waiting-for-confirmation", confirm=_elicitation("Please confirm", ok="boolean"))
    if params.get("requestState") != "waiting-for-confirmation":
        raise Failure(1001, f"This is not the state that was handed out: {params.get('requestState')!r}")
    return "state-ok"


@METHODS.add("test_input_required_result_multiple_inputs")
async def multiple_inputs(params: Params) -> JsonObject | str:
    """Asks for a name, a greeting and the roots at once."""
    name = _accepted(params, "user_name").get("name")
    greeting = _sampled(params, "greeting")
    roots = _roots(params, "client_roots")
    if name is None or greeting is None or roots is None:
        return _asking(
            "waiting-for-three",
            user_name=_elicitation("What is your name?", name="string"),
            greeting=_sampling("Generate a greeting"),
            client_roots=_listing_roots(),
        )
    return f"{greeting} {name} of {', '.join(roots)}"


@METHODS.add("test_input_required_result_multi_round")
async def multi_round(params: Params) -> JsonObject | str:
    """Asks for a name, then for a color; the state carries the name."""
    state = json.loads(params.get("requestState") or '{"round": 1}')
    if state["round"] == 2 and "color" in (answer := _accepted(params, "step2")):
        return f"{state['name']} likes {answer['color']}."
    if state["round"] == 1 and "name" in (answer := _accepted(params, "step1")):
        state = {"round": 2, "name": answer["name"]}
    if state["round"] == 2:
        return _asking(json.dumps(state), step2=_elicitation("Step 2: What is your favorite color?", color="string"))
    return _asking(json.dumps(state), step1=_elicitation("Step 1: What is your name?", name="string"))


@METHODS.add("test_input_required_result_tampered_state")
async def tampered_state(params: Params) -> JsonObject | str:
    """Asks for a confirmation, and trusts whatever state comes back: a forged one never gets here."""
    if not _accepted(params, "confirm").get("ok"):
        return _asking("trusted", confirm=_elicitation("Please confirm", ok="boolean"))
    return f"Confirmed in state {params.get('requestState')}."


@METHODS.add("test_input_required_result_capabilities")
async def capabilities(params: Params) -> JsonObject | str:
    """Asks only for what the client can do."""
    if params.get("inputResponses"):
        return "Thank you."
    questions = {
        "elicitation": _elicitation("What is your name?", name="string"),
        "sampling": _sampling("Generate a greeting"),
        "roots": _listing_roots(),
    }
    declared = params.get("clientCapabilities", {})
    return _asking(None, **{name: question for name, question in questions.items() if name in declared})


@METHODS.add("test_elicitation", {"type": "object", "properties": {"message": {"type": "string"}}})
async def elicitation(params: Params) -> JsonObject | str:
    """Asks for a user's name and address with a message of the caller's."""
    form = {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    }
    return _elicited(params, str(params.get("message")), form)


@METHODS.add("test_elicitation_sep1034_defaults")
async def elicitation_defaults(params: Params) -> JsonObject | str:
    """Asks with a form that has defaults."""
    form = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return _elicited(params, "Please check your profile", form)


@METHODS.add("test_elicitation_sep1330_enums")
async def elicitation_enums(params: Params) -> JsonObject | str:
    """Asks with a form that has every kind of choice."""
    titled = [{"const": f"value{n}", "title": title} for n, title in enumerate(("First", "Second", "Third"), 1)]
    untitled = {"type": "string", "enum": ["option1", "option2", "option3"]}
    legacy = {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["One", "Two", "Three"]}
    form = {
        "untitledSingle": untitled,
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": legacy,
        "untitledMulti": {"type": "array", "items": untitled},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return _elicited(params, "Please choose", form)


def _elicited(params: Params, message: str, properties: JsonObject) -> JsonObject | str:
    """What came of a form, or the form."""
    answer = _response(params, "form")
    if answer:
        return f"Elicitation completed: action={answer['action']}, content={json.dumps(answer.get('content', {}))}"
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return _asking(form={"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}})


def _asking(state: str | None = None, **requests: JsonObject) -> JsonObject:
    asking: JsonObject = {"resultType": "input_required", "inputRequests": requests}
    return asking if state is None else {**asking, "requestState": state}


def _elicitation(message: str, **properties: str) -> JsonObject:
    schema = {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": list(properties),
    }
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}


def _sampling(text: str) -> JsonObject:
    message = {"role": "user", "content": {"type": "text", "text": text}}
    return {"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": 100}}


def _listing_roots() -> JsonObject:
    return {"method": "roots/list", "params": {}}


def _response(params: Params, key: str) -> JsonObject:
    """What the client answered to one question; empty where it is missing or no answer at all."""
    responses = params.get("inputResponses")
    response: Any = responses.get(key) if isinstance(responses, dict) else None
    return response if isinstance(response, dict) else {}


def _accepted(params: Params, key: str) -> JsonObject:
    """What a person entered; empty where nobody did."""
    response = _response(params, key)
    content = response.get("content")
    return content if response.get("action") == "accept" and isinstance(content, dict) else {}


def _sampled(params: Params, key: str) -> str | None:
    content = _response(params, key).get("content")
    return content.get("text") if isinstance(content, dict) else None


def _roots(params: Params, key: str) -> list[str] | None:
    roots = _response(params, key).get("roots")
    return [str(root["uri"]) for root in roots] if isinstance(roots, list) else None
