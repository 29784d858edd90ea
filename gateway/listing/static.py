"""A listing from a file, for services that have none: an OpenRPC document, or our own short YAML of methods.

::

    methods:
      aria2.addUri:
        description: Add a download.
        structure: by-position            # by-name (default), by-position
        params:                           # in order
          uris: {schema: {type: array, items: {type: string}}, required: true, description: Where to fetch from.}
          options: {schema: {type: object}}
        result: {type: string}            # JSON Schema; false: the method has no result and is sent as a notification
"""

from __future__ import annotations

from typing import Any, Final

import jsonschema
import referencing
import yaml

from gateway.listing import openrpc
from gateway.listing.dialect import NoListing, Source, Step
from gateway.model import Listing, Method, Parameter, Seen, Structure

_FAULTS_SHOWN: Final = 10
_SCHEMA: Final = {"type": ["object", "boolean"]}

FILE_SCHEMA: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Methods of a JSON-RPC service",
    "type": "object",
    "required": ["methods"],
    "additionalProperties": False,
    "properties": {
        "title": {"type": "string"},
        "version": {"type": "string"},
        "methods": {
            "type": "object",
            "propertyNames": {"type": "string", "minLength": 1, "maxLength": 512},
            "additionalProperties": {
                "type": ["object", "null"],
                "additionalProperties": False,
                "properties": {
                    "title": {"type": "string"},
                    "description": {"type": "string"},
                    "structure": {"enum": ["by-name", "by-position"]},
                    "params": {
                        "type": "object",
                        "propertyNames": {"type": "string"},
                        "additionalProperties": {
                            "type": ["object", "null"],
                            "additionalProperties": False,
                            "properties": {
                                "schema": _SCHEMA,
                                "required": {"type": "boolean"},
                                "description": {"type": "string"},
                            },
                        },
                    },
                    "input_schema": {"type": "object"},
                    "result": _SCHEMA,
                    "annotations": {"type": "object"},
                    "deprecated": {"type": "boolean"},
                    "endpoint": {"type": "string", "pattern": "^/(?!/)"},
                },
            },
        },
    },
}

_validator = jsonschema.Draft202012Validator(FILE_SCHEMA, registry=referencing.Registry())


class Static:
    name = "static"

    async def fetch(self, source: Source) -> Listing:
        file = source.file or ""
        try:
            raw = await source.read(file)
            return parse(yaml.load(raw, Loader=_Loader), file)  # noqa: S506, derived from CSafeLoader
        except OSError as error:
            raise NoListing([Step(file, Seen(error.strerror or str(error)))]) from None
        except UnicodeDecodeError:
            raise NoListing([Step(file, Seen("not UTF-8"))]) from None
        except yaml.YAMLError as error:
            raise NoListing([Step(file, Seen(" ".join(str(error).split())))]) from None
        except ValueError as error:
            raise NoListing([Step(file, Seen(str(error)))]) from None
        except RecursionError:
            raise NoListing([Step(file, Seen("nested too deeply"))]) from None


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML, of which JSON is a part; dates stay text, since JSON knows none."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def parse(document: Any, file: str) -> Listing:
    """Raises :class:`ValueError` with every fault of the file, by path."""
    if openrpc.recognizes(document):
        return openrpc.parse(document)
    faults = sorted(_validator.iter_errors(document), key=lambda fault: [str(part) for part in fault.absolute_path])
    if faults:
        shown = [f"{'.'.join(map(str, fault.absolute_path)) or 'the file'}: {fault.message}" for fault in faults]
        raise ValueError("; ".join(shown[:_FAULTS_SHOWN]) + (" …" if len(shown) > _FAULTS_SHOWN else ""))
    methods = tuple(_method(name, entry or {}) for name, entry in document["methods"].items())
    return Listing(Static.name, methods, title=document.get("title", ""), version=document.get("version", ""))


def _method(name: str, entry: dict[str, Any]) -> Method:
    result = entry.get("result")
    return Method(
        name,
        Static.name,
        title=entry.get("title", ""),
        description=entry.get("description", ""),
        parameters=tuple(_parameter(key, item or {}) for key, item in entry.get("params", {}).items()),
        input_schema=entry.get("input_schema"),
        structure=Structure(entry.get("structure", "by-name")),
        result=None if result is False else result,
        notification=result is False,
        endpoint=entry.get("endpoint"),
        annotations=entry.get("annotations", {}),
        deprecated=entry.get("deprecated", False),
    )


def _parameter(name: str, item: dict[str, Any]) -> Parameter:
    return Parameter(name, item.get("schema", True), item.get("required", False), item.get("description", ""))
