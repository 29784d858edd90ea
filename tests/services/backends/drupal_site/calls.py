"""/jsonrpc: envelope, parameters, ids and errors, as Drupal's module jsonrpc answers them.

| request | versions 1 and 2 | version 3 |
| --- | --- | --- |
| bad JSON, `[]`, no "jsonrpc", id null | 500, a page | 400, -32603, id null |
| notification | runs, then 500, a page | runs, 204 |
| `params` for a method without parameters | ignored | 400, -32602 |

Envelope faults are HTTP 400, errors of a method that ran are 200 with id null. Nothing of a batch runs
unless all of it is understood.
"""

import json
from dataclasses import dataclass
from typing import Any

from drupal_site import php, schema
from drupal_site.methods import METHODS, RAW_FACTORY, Method, MethodError, Site
from drupal_site.people import Account


@dataclass(frozen=True)
class Answer:
    """`body` None with status 500 is the page of an uncaught error, with 204 no body at all."""

    status: int
    body: Any = None


@dataclass(frozen=True)
class Call:
    id: Any
    is_notification: bool
    method: Method
    arguments: dict[str, Any]


class EnvelopeError(Exception):
    def __init__(self, id: Any, code: int, message: str, data: str) -> None:
        super().__init__(data)
        self.body = _error(id, {"code": code, "message": message, "data": data})


class Uncaught(Exception):
    """Code that older versions let fall through to Drupal's error page."""


def answer(text: str, account: Account, site: Site, version: int) -> Answer:
    """The answer to the body of one HTTP request."""
    try:
        calls, is_batch = _read(text, version)
    except EnvelopeError as fault:
        return Answer(400, fault.body)
    except Uncaught:
        return Answer(500)
    results = [_run(call, account, site) for call in calls]
    if any(call.is_notification for call in calls) and version < 3:
        return Answer(500)
    kept = [result for call, result in zip(calls, results, strict=True) if not call.is_notification]
    if not kept:
        return Answer(204)
    broken = next((result.body for result in kept if result.status == 500), None)
    if broken is not None:
        return Answer(500, broken)
    return Answer(200, [result.body for result in kept] if is_batch else kept[0].body)


def _read(text: str, version: int) -> tuple[list[Call], bool]:
    try:
        data = json.loads(text)
    except ValueError:
        data = None
    is_batch = isinstance(data, list)
    found = [entry for item in (data if is_batch else [data]) for entry in _envelope_faults(item)]
    if found or data == []:
        if version < 3:
            raise Uncaught
        found = found or [schema.fault("", "There must be a minimum of 1 items in the array", "minItems")]
        adaptor = r"Drupal\jsonrpc\Shaper\RpcRequestFactory"
        raise EnvelopeError(None, -32603, "Internal Error", schema.complaint(adaptor, found))
    return [_call(item, version) for item in (data if is_batch else [data])], is_batch


def _envelope_faults(item: Any) -> list[dict[str, Any]]:
    if not isinstance(item, dict):
        return [schema.fault("", f"{php.type_name(item)} value found, but an object is required", "type")]
    required = ("jsonrpc", "method")
    found = [
        schema.fault(f"/{key}", f"The property {key} is required", "required") for key in required if key not in item
    ]
    if "id" in item and item["id"] is None:
        found.append(schema.fault("/id", "NULL value found, but a string or a number is required", "type"))
    if found:
        # The whole is "an array or an array", and PHP's decoder has made one array of an object.
        found.insert(0, schema.fault("", "Array value found, but an array is required", "type"))
        found.append(schema.fault("", "Failed to match exactly one schema", "oneOf"))
    return found


def _call(item: dict[str, Any], version: int) -> Call:
    id_ = item.get("id") or None  # PHP: `$id ? $id : NULL`, so 0 and "" are lost
    id_ = None if id_ == "0" else id_
    method = METHODS.get(item["method"]) if isinstance(item["method"], str) else None
    if method is None:
        text = f"The method '{item['method']}' does not exist/is not available."
        raise EnvelopeError(id_, -32601, "Method Not Found", text)
    params = item.get("params")
    if not method.parameters and params is not None and version >= 3:
        text = f"The {method.id} method does not accept parameters."
        raise EnvelopeError(id_, -32602, "Invalid Params", text)
    # By name only: of a list nothing is found, and nothing is said about it.
    return Call(id_, "id" not in item, method, _arguments(id_, method, params if isinstance(params, dict) else {}))


def _arguments(id_: Any, method: Method, params: dict[str, Any]) -> dict[str, Any]:
    arguments = {}
    for parameter in method.parameters:
        value = params.get(parameter.name)
        if value is not None:
            found = schema.faults(value, parameter.schema)
            if found:
                complaint = schema.complaint(parameter.factory or RAW_FACTORY, found)
                text = f"The {parameter.name} parameter does not conform to the parameter schema. {complaint}"
                raise EnvelopeError(None, -32602, "Invalid Params", text)
            arguments[parameter.name] = value
        elif parameter.required:
            text = f"Missing required parameter: {parameter.name}"
            raise EnvelopeError(id_, -32602, "Invalid Params", text)
    return arguments


def _run(call: Call, account: Account, site: Site) -> Answer:
    if not account.may(call.method.permission):
        text = f"Access Denied: The '{call.method.permission}' permission is required."
        return Answer(200, _error(None, {"code": -32600, "message": "Invalid Request", "data": text}))
    try:
        result = call.method.run(site, call.arguments)
    except MethodError as raised:
        return Answer(200, _error(None, raised.error))
    if call.method.breaks_output_schema:
        text = "Array is an invalid type for foo"
        return Answer(500, _error(None, {"code": -32603, "message": "Internal Error", "data": text}))
    return Answer(200, {"jsonrpc": "2.0", "id": call.id, "result": result})


def _error(id_: Any, error: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "error": error}
