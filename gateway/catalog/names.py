"""Name tools, and make their arguments of the parameters of a method."""

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from gateway.jsonrpc import pointer_of
from gateway.model import HeaderParameter, JsonObject, Method, NameStyle, Parameter, Schema
from gateway.model.schema_keywords import IN_PLACE, IN_PLACE_LISTS, in_place, with_schemas
from gateway.schema.bundling import UnsoundSchema, object_schema
from gateway.schema.validation import ValidatorCache
from gateway.settings.catalog import Argument

_SUFFIX_DIGITS: Final = 8


@dataclass(frozen=True, slots=True)
class NameRule:
    """Hold which names a client accepts: of ``characters``, a regular expression's class, and at most ``longest`` of
    them. ``nameless`` replaces a text without any."""

    characters: str
    longest: int
    nameless: str = "method"

    def accepts(self, name: str) -> bool:
        return re.fullmatch(f"[{self.characters}]{{1,{self.longest}}}", name) is not None

    def make_name(self, text: str, salt: str) -> str:
        """Return the accepted name that is nearest to ``text``; ``salt`` makes its suffix, where it needs one."""
        name = re.sub(f"[^{self.characters}]+", "_", text).strip("_")
        return name if 0 < len(name) <= self.longest else self.add_suffix(name or self.nameless, salt)

    def add_suffix(self, name: str, salt: str) -> str:
        suffix = "_" + hashlib.sha256(salt.encode("utf-8", "surrogatepass")).hexdigest()[:_SUFFIX_DIGITS]
        return name[: self.longest - len(suffix)] + suffix


NAME_RULES: Final[Mapping[NameStyle, NameRule]] = {
    NameStyle.MCP: NameRule(r"A-Za-z0-9_.\-", 128),
    NameStyle.LLM: NameRule(r"A-Za-z0-9_\-", 64),
}


def assign_names(methods: Iterable[str], chosen: Mapping[str, str]) -> dict[str, dict[NameStyle, str]]:
    """Return both names of each method. They depend on the set of methods, not on its order: first come the operator's
    names, ``chosen``, next the valid ones, then the others, sorted. A tool's MCP name is also its name for LLM APIs
    where they accept it; such names precede those that have to be changed."""
    mcp, llm = NAME_RULES[NameStyle.MCP], NAME_RULES[NameStyle.LLM]
    wanted = {method: chosen.get(method, method) for method in methods}
    ordered = sorted(wanted, key=lambda method: (method not in chosen, not mcp.accepts(method), method))
    first = unique(ordered, wanted, mcp)
    ordered = sorted(wanted, key=lambda method: (not llm.accepts(first[method]), method not in chosen, method))
    second = unique(ordered, first, llm)
    return {method: {NameStyle.MCP: first[method], NameStyle.LLM: second[method]} for method in wanted}


def unique(ordered: Iterable[str], wanted: Mapping[str, str], rule: NameRule) -> dict[str, str]:
    """Return a different name for each raw name: the wanted one, as near as ``rule`` allows. The first of several that
    want the same name gets it; the others get a suffix, made from their raw names."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for raw in ordered:
        text, salt = wanted[raw], raw
        name = text if rule.accepts(text) else rule.make_name(text, raw)
        while name in taken:
            name, salt = rule.add_suffix(name, salt), f"{salt}+"
        names[raw] = name
        taken.add(name)
    return names


_RULE: Final = NameRule(r"A-Za-z0-9_.\-", 64, "argument")
_OPAQUE: Final = ("propertyNames", "patternProperties", "enum", "const", "$ref", "$dynamicRef")

KEYWORD: Final = "x-mcp-header"
"""Annotation of an argument that clients mirror into an HTTP header (2026-07-28, SEP-2243)."""
PREFIX: Final = "Mcp-Param-"
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_KINDS: Final = ("integer", "string", "boolean")


def override_arguments(method: Method, arguments: Mapping[str, Argument]) -> dict[str, Any]:
    """Return the fields of a method that overrides of its arguments change, with their new values."""
    listed = method.input_schema if isinstance(method.input_schema, Mapping) else None
    if listed is not None and method.parameters in (None, ()):
        whole = _override_in_schema(listed, arguments)
        if whole is not None:
            return {"input_schema": whole}
        known = _parameters_of_schema(listed)
    else:
        known = _name_counted({parameter.name: parameter for parameter in method.parameters or ()}, arguments)
    is_complete = method.is_complete or known.keys() <= arguments.keys()
    if not method.is_complete and is_complete:  # then the operator's order counts: the listing has none
        known = {name: known.get(name, Parameter(name)) for name in arguments}
    for name, argument in arguments.items():
        known[name] = _override_parameter(known.get(name, Parameter(name)), argument)
    root = method.root or listed or {}
    return {"parameters": tuple(known.values()), "input_schema": None, "root": root, "is_complete": is_complete}


def _name_counted(known: dict[str, Parameter], arguments: Collection[str]) -> dict[str, Parameter]:
    """Return parameters that the listing only counts (arg0, arg1, …) with the operator's names for them, in order."""
    if list(known) != [f"arg{place}" for place in range(len(known))]:
        return known
    names = iter([name for name in arguments if name not in known])
    taken = [name if name in arguments else next(names, name) for name in known]
    return {name: replace(known[f"arg{place}"], name=name) for place, name in enumerate(taken)}


def _override_in_schema(whole: JsonObject, arguments: Mapping[str, Argument]) -> dict[str, Any] | None:
    """Return a whole schema with overrides that replace no part of it, so that its other keywords stay. Return None
    where one replaces a part, or the schema is unsound: only its arguments are then used."""
    if any(argument.schema_ is not None or argument.hidden for argument in arguments.values()):
        return None
    try:
        converted = object_schema(whole)
    except UnsoundSchema:
        return None
    known = _parameters_of_schema(converted)
    if not arguments.keys() <= known.keys():
        return None
    known |= {name: _override_parameter(known[name], argument) for name, argument in arguments.items()}
    required = [name for name, parameter in known.items() if parameter.required]
    return {**converted, "properties": {name: known[name].schema for name in known}, "required": required}


def _parameters_of_schema(whole: JsonObject) -> dict[str, Parameter]:
    properties, required = whole.get("properties"), whole.get("required")
    return {
        name: Parameter(name, schema, isinstance(required, list) and name in required)
        for name, schema in (properties if isinstance(properties, Mapping) else {}).items()
    }


def _override_parameter(before: Parameter, argument: Argument) -> Parameter:
    schema: Schema = before.schema if argument.schema_ is None else argument.schema_
    if isinstance(schema, Mapping) or schema is True:
        added: dict[str, Any] = {}
        if argument.description is not None:
            added["description"] = argument.description
        if argument.has_default and not argument.hidden:
            added["default"] = _default(argument)
        schema = {**(schema if isinstance(schema, Mapping) else {}), **added} if added else schema
    required = before.required and not argument.has_default if argument.required is None else argument.required
    described = argument.description is not None or "description" in (argument.schema_ or {})
    return Parameter(before.name, schema, required, "" if described else before.description)


def check_defaults(
    arguments: Mapping[str, Argument], schema: JsonObject, validators: ValidatorCache
) -> tuple[JsonObject, JsonObject]:
    """Return the operator's defaults for arguments that a caller leaves out, and those for hidden ones. Raises
    :class:`UnsoundSchema` for one that the method's whole ``schema`` refuses; the reason does not have the value, which
    may be a secret."""
    given = {name: _default(argument) for name, argument in arguments.items() if argument.has_default}
    if not given:
        return {}, {}
    validator = validators.compile_alone(schema)
    for name, value in given.items():
        if not validator.is_valid({name: value}):
            reason = "the default in catalog.tools does not match the schema"
            raise UnsoundSchema(reason, pointer_of(("properties", name)), name)
    fixed = {name: value for name, value in given.items() if arguments[name].hidden}
    return {name: value for name, value in given.items() if name not in fixed}, fixed


def _default(argument: Argument) -> Any:
    return None if argument.default is None else argument.default.get_secret_value()


def publish_names(schema: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the schema with names as LLM APIs accept them, and the method's own name of each new one. Some listings
    have headings as names (``Transaction hash``), others special characters (``$filter``). A schema with rules for
    names, or with a reference that may name properties, stays: renaming would change its meaning."""
    parts = [*_same_object_schemas(schema)]
    names = {name: name for part in parts for name in part.get("properties") or ()}
    if all(map(_RULE.accepts, names)) or any(keyword in part for part in parts for keyword in _OPAQUE):
        return schema, {}
    # Accepted names stay; the others are sorted, so that the order of the listing does not matter.
    published = unique(sorted(names, key=lambda name: (not _RULE.accepts(name), name)), names, _RULE)
    return _rename_properties(schema, lambda name: published.get(name, name)), {
        new: old for old, new in published.items() if new != old
    }


def _same_object_schemas(schema: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """Yield the schema, and the subschemas that apply to the same object."""
    yield schema
    for part in in_place(schema):
        yield from _same_object_schemas(part)


def _rename_properties(schema: Any, rename: Callable[[str], str]) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    new = dict(schema)
    for keyword in (*IN_PLACE, *IN_PLACE_LISTS, "dependentSchemas"):
        if keyword in schema:
            new[keyword] = with_schemas(keyword, schema[keyword], lambda part: _rename_properties(part, rename))
    for keyword in ("properties", "dependentSchemas"):
        if isinstance(new.get(keyword), Mapping):
            new[keyword] = {rename(name): child for name, child in new[keyword].items()}
    if isinstance(schema.get("required"), list):
        new["required"] = [rename(name) if isinstance(name, str) else name for name in schema["required"]]
    if isinstance(schema.get("dependentRequired"), Mapping):
        new["dependentRequired"] = {
            rename(name): [rename(other) for other in others] for name, others in schema["dependentRequired"].items()
        }
    return new


def header_parameters(schema: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[HeaderParameter, ...]]:
    """Return the schema without bad annotations, for which clients would drop the tool, and the header of each good
    one: its name is an RFC 9110 token, unique in the tool whatever its case; the schema is an integer's, a string's or
    a boolean's; and ``properties`` alone lead to it."""
    found: dict[str, HeaderParameter] = {}
    return _without_bad_headers(schema, (), found), tuple(found.values())


def _without_bad_headers(value: Any, path: tuple[str, ...] | None, found: dict[str, HeaderParameter]) -> Any:
    """Return the value without bad annotations. ``path`` is None below any keyword but ``properties``."""
    if not isinstance(value, Mapping):
        return value
    result: dict[str, Any] = {}
    for key, child in value.items():
        if key == "properties" and isinstance(child, Mapping):
            result[key] = {
                name: _without_bad_headers(schema, None if path is None else (*path, name), found)
                for name, schema in child.items()
            }
        elif key == KEYWORD:
            if path and _is_good(child, value, found):
                found[child.lower()] = HeaderParameter(PREFIX + child, path, str(value["type"]))
                result[key] = child
        else:
            result[key] = with_schemas(key, child, lambda schema: _without_bad_headers(schema, None, found))
    return result


def _is_good(name: Any, schema: Mapping[str, Any], found: Mapping[str, HeaderParameter]) -> bool:
    return (
        isinstance(name, str)
        and _TOKEN.fullmatch(name) is not None
        and name.lower() not in found
        and schema.get("type") in _KINDS
    )
