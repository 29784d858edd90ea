"""/jsonrpc/methods: what one account may call, in the shapes of three major versions.

1   no usage for the router, so `attributes` is `[]`; the collection drops `params`,
    which a method's own page has
2   as captured
3   type "JsonRpcMethodDefinition"; class names without the leading backslash
"""

from typing import Any

from drupal_site.methods import METHODS, Method, Parameter
from drupal_site.people import Account


def collection(account: Account, origin: str, language: str, version: int) -> dict[str, Any]:
    """The envelope; links carry the host name that the backend was called by."""
    allowed = [method for method in METHODS.values() if account.may(method.permission)]
    entries = [entry(method, origin, language, version, in_collection=True) for method in allowed]
    return {"data": entries, "links": {"self": f"{origin}/jsonrpc/methods"}}


def entry(method: Method, origin: str, language: str, version: int, *, in_collection: bool = False) -> dict[str, Any]:
    """One method, bare."""
    attributes: dict[str, Any] = {"usage": method.usage_in(language)}
    if version == 1 and method.id == "route_builder.rebuild":
        attributes = {}
    if method.parameters and not (version == 1 and in_collection):
        attributes["params"] = {parameter.name: _parameter(parameter, version) for parameter in method.parameters}
    address = f"{origin}/jsonrpc/methods"
    return {
        "type": "JsonRpcMethodDefinition" if version == 3 else "JsonRpcMethod",
        "id": method.id,
        "attributes": attributes,
        "links": {"self": f"{address}/{method.id}", "collection": address},
    }


def _parameter(parameter: Parameter, version: int) -> dict[str, Any]:
    """Absent rather than null or false; the resolved schema stands beside the attributes."""
    attributes: dict[str, Any] = {}
    if parameter.factory is None:
        attributes["schema"] = parameter.schema
    if parameter.description:
        attributes["description"] = parameter.description
    if parameter.factory is not None:
        attributes["factory"] = parameter.factory if version == 3 else f"\\{parameter.factory}"
    if parameter.required:
        attributes["required"] = True
    return {
        "type": "JsonRpcParameterDefinition",
        "id": parameter.name,
        "attributes": attributes,
        "schema": parameter.schema,
    }
