"""Method → Tool, as Drupal's bridge defines it: id → name, usage → description, params → inputSchema, output →
outputSchema, title and annotations. A bad output schema is dropped, since the tool is useful without it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from gateway import jsonrpc
from gateway.catalog import names
from gateway.catalog.curation import CHANGES_SITE, moves_value
from gateway.jsonrpc import pointer_of
from gateway.model import CLOSED, HINTS, Binding, JsonObject, MessageForm, Method, NameStyle, Structure, Tool, Version
from gateway.model.schema_keywords import ANNOTATIONS
from gateway.model.tools import ResultFit
from gateway.schema import texts
from gateway.schema.bundling import Bundler, UnsoundSchema, bundle_schema, object_schema, shorten_schema
from gateway.schema.drafts import says_required
from gateway.schema.validation import ValidatorCache
from gateway.settings import Params, ToolOverride
from gateway.text import excerpt, truncate

SPREAD: Final = "params"
_POSITIONAL: Final = {"type": "array", "description": "The positional parameters, in order."}
_UNKNOWN: Final = {
    "type": ["array", "object"], "description": "The parameters: by position a list, by name an object."
}  # fmt: skip
MAX_META: Final = 4096
_CAPABILITIES: Final = ("elicitation", "roots", "sampling")
"""Words of ``catalog.tools.*.mcp`` that are capabilities of clients."""
_NAMED: Final = (Structure.BY_NAME, Structure.BY_NAME_IN_LIST)
_KEYWORDS_WITHOUT_PARAMETERS: Final = {
    "type", "properties", "additionalProperties", "required", "title", "description", "$schema"
}  # fmt: skip
"""Keywords of a schema that allows no argument. Of a method with such a schema, ``params`` may be left out."""


@dataclass(frozen=True, slots=True)
class ToolPolicy:
    """Hold what applies to all methods: the operator's settings, and what the listing says of all of them."""

    params: Params
    trust_annotations: bool = False
    form: MessageForm = field(default_factory=MessageForm)
    by_position: bool = False
    leading_params: bool = False
    named_arguments: bool = False
    max_result: int | None = None
    dialect: str = ""


def build_tool(
    method: Method,
    tool_names: Mapping[NameStyle, str],
    override: ToolOverride,
    policy: ToolPolicy,
    validators: ValidatorCache,
) -> Tool:
    """Return the tool for a method. Raises :class:`UnsoundSchema`."""
    method = _apply_override(_apply_required_of_draft_3(method), override)
    structure, is_known = _structure(method, override, policy)
    if structure is Structure.BY_POSITION and not method.is_complete:
        method = replace(method, parameters=None)  # whoever guesses their order calls wrongly
    whole = texts.clean_schema_texts(_input_schema(method, structure))
    defaults, fixed = names.check_defaults(override.arguments, whole, validators)
    shown = whole
    if fixed:
        visible = tuple(p for p in method.parameters or () if p.name not in fixed)
        shown = texts.clean_schema_texts(_input_schema(replace(method, parameters=visible), structure))
    inputs, renamed = _publish_input(shown, _is_closed(method, structure), validators)
    output, note = _output_schema(method, override, validators)
    published_output = None if output is None else texts.remove_hidden_characters(output, results=True)
    annotations, leftover = _annotations(method, override, policy)
    return Tool(
        name=tool_names[NameStyle.MCP],
        names=tool_names,
        method=method.name,
        title=texts.trim_excerpt(method.title, texts.MAX_TITLE),
        description=_description(method, tool_names[NameStyle.MCP]),
        **inputs,
        output_schema=published_output,
        output_check=None if published_output is output else output,
        annotations=annotations,
        meta=_meta(method, leftover, note),
        scopes=method.scopes,
        auth_level=_auth_level(method.annotations) if override.scopes is None else "required",
        requires={word: {} for word in override.mcp if word in _CAPABILITIES},
        returns_blocks="blocks" in override.mcp,
        input_required="input_required" in override.mcp,
        confirm=_needs_confirmation(annotations, override),
        coerces=annotations.get("readOnlyHint") is True if override.coerce is None else override.coerce,
        limit=override.limit,
        fit=_fit(override, policy),
        binding=_binding(method, structure, is_known, whole, renamed, defaults, fixed, override, policy),
    )


def _publish_input(
    schema: dict[str, Any], closed: bool, validators: ValidatorCache
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the fields of a tool that are made of its input schema, and the method's own name of each new argument."""
    # Compiled now, so that a schema that is invalid or too costly quarantines its method before any call.
    validators.compile({**schema, **CLOSED} if closed else schema)
    schema, renamed = names.publish_names(schema)
    whole, headers = names.header_parameters(schema)
    published = texts.remove_hidden_characters(whole)
    accepted = texts.without_refused_defaults(published, validators)
    shown = shorten_schema(accepted)
    if (lone := shown.get("properties", {}).get(SPREAD)) in (_POSITIONAL, _UNKNOWN):
        shown = {**shown, "properties": {SPREAD: {"type": lone["type"]}}}  # the server's instructions say it once
    check, shown_input = None if published is whole else whole, None if shown is published else shown
    fields = {"input_schema": published, "closed": closed, "input_check": check, "shown_input": shown_input}
    return {**fields, "drops_defaults": accepted is not published, "headers": headers}, renamed


def _meta(method: Method, annotations: JsonObject, dropped: str | None) -> dict[str, Any]:
    """Return the tool's ``_meta``: that of the listing, ``annotations`` that are not hints of MCP, and why an output
    schema was ``dropped``."""
    meta: dict[str, Any] = texts.clean_value_texts(method.meta)
    if method.deprecated:
        meta["deprecated"] = True
    if annotations and len(jsonrpc.encode_canonical(annotations)) <= MAX_META:
        meta["annotations"] = texts.clean_value_texts(annotations)
    if dropped:
        meta["outputSchemaDropped"] = dropped
    return meta


def _apply_required_of_draft_3(method: Method) -> Method:
    """Return the method with each parameter required whose own schema says so, as in draft 3."""
    parameters = method.parameters or ()
    if not any(says_required(parameter.schema) for parameter in parameters):
        return method
    return replace(
        method, parameters=tuple(replace(p, required=p.required or says_required(p.schema)) for p in parameters)
    )


def _apply_override(method: Method, override: ToolOverride) -> Method:
    scopes = None if override.scopes is None else frozenset(override.scopes)
    given = {"title": override.title, "description": override.description, "scopes": scopes}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if override.arguments:
        changes |= names.override_arguments(method, override.arguments)
    return replace(method, **changes) if changes else method


def _structure(method: Method, override: ToolOverride, policy: ToolPolicy) -> tuple[Structure, bool]:
    """Return how params are sent, and whether the operator or the listing says so, or it makes no difference: a method
    whose parameters are unknown, or that has none."""
    stated = policy.params.structure if override.structure is None else override.structure
    if stated != "auto":
        return Structure(stated), True
    is_bare = method.parameters is None and method.input_schema is None
    if policy.named_arguments and is_bare and method.structure is Structure.BY_POSITION:
        return Structure.BY_NAME, True  # its dialect gives names alone, and no list can hold the credential
    if method.structure not in (Structure.EITHER, Structure.UNKNOWN):
        return method.structure, True
    is_one = policy.form.version is Version.ONE
    by_position = policy.leading_params or is_one  # what precedes params is positional, and 1.0 has nothing else
    if method.structure is Structure.EITHER:
        return Structure.BY_POSITION if by_position else Structure.BY_NAME, True
    if is_bare and not by_position:
        return Structure.UNKNOWN, True  # one argument, a list or an object: the caller chooses
    has_order = method.input_schema is None and method.is_complete
    guess = Structure.BY_POSITION if by_position or (policy.by_position and has_order) else Structure.BY_NAME
    # Without an order, nothing but names can be tried.
    return guess, is_one or not (has_order and method.parameters)


def _input_schema(method: Method, structure: Structure) -> dict[str, Any]:
    if isinstance(method.input_schema, bool):
        raise UnsoundSchema("its entry has no inputSchema that is an object")
    if method.input_schema is not None:
        return object_schema(method.input_schema)
    if method.parameters is None:
        if structure in _NAMED:
            return {"type": "object"}
        return {"type": "object", "properties": {SPREAD: _UNKNOWN if structure is Structure.UNKNOWN else _POSITIONAL}}
    bundler = Bundler(method.root)
    properties: dict[str, Any] = {}
    for parameter in method.parameters:
        try:
            schema = bundler.add_schema(parameter.schema, pointer_of(("properties", parameter.name)))
        except UnsoundSchema as error:
            raise UnsoundSchema(error.reason, error.pointer, parameter.name) from None
        if parameter.description:  # parameters may share a schema, whose text describes none of them
            schema = {**schema, "description": excerpt(parameter.description, texts.MAX_DESCRIPTION)}
        properties[parameter.name] = schema
    whole: dict[str, Any] = {"type": "object", "properties": properties}
    required = [parameter.name for parameter in method.parameters if parameter.required]
    if required:
        whole["required"] = required
    return bundler.finish(whole)


def _is_closed(method: Method, structure: Structure) -> bool:
    """Return whether the listing names all arguments. A whole schema decides itself whether it allows others."""
    if method.input_schema is not None:
        return False
    return (method.parameters is not None and method.is_complete) or structure not in _NAMED


def _output_schema(
    method: Method, override: ToolOverride, validators: ValidatorCache
) -> tuple[dict[str, Any] | None, str | None]:
    """Return the output schema, or None and the fault for which it is dropped, if any."""
    # A listing describes the whole result. For a result that is MCP content, the schema is of structuredContent alone.
    listed = None if "blocks" in override.mcp else method.result
    declared = listed if override.output_schema is None else override.output_schema
    if isinstance(declared, bool) or not declared:
        return None, None
    try:
        schema = texts.clean_schema_texts(bundle_schema(declared, method.root))
        validators.compile(schema)
    except UnsoundSchema as error:
        return None, error.reason
    return (schema if schema.keys() - ANNOTATIONS else None), None


def _annotations(method: Method, override: ToolOverride, policy: ToolPolicy) -> tuple[JsonObject, dict[str, Any]]:
    """Return the published hints, and the backend's other annotations for ``_meta``. A method that moves money, signs
    or changes a whole site is marked destructive, unless the backend is trusted and says that it changes nothing."""
    leftover = {key: value for key, value in method.annotations.items() if isinstance(key, str)}
    published: dict[str, Any] = {}
    if policy.trust_annotations:
        published = {key: leftover.pop(key) for key in HINTS if isinstance(leftover.get(key), bool)}
    changes_site = method.name in CHANGES_SITE and policy.dialect in ("drupal", "jsonrpc_mcp")
    if (changes_site or moves_value(method.name)) and published.get("readOnlyHint") is not True:
        published["destructiveHint"] = True
    published |= override.annotations.model_dump(exclude_none=True)
    return published, leftover


def _needs_confirmation(annotations: JsonObject, override: ToolOverride) -> bool:
    """Return whether a person has to agree to each call. A tool without ``destructiveHint`` is not destructive here,
    although MCP assumes so."""
    if override.confirm == "destructive":
        return annotations.get("destructiveHint") is True
    return bool(override.confirm)


def _fit(override: ToolOverride, policy: ToolPolicy) -> ResultFit | None:
    """Return how results are shortened for models, None where they are not. Content blocks are the service's own."""
    shown, most = override.result, override.result.max or policy.max_result
    fit = ResultFit(None if shown.select is None else str(shown.select), shown.fields, most)
    return None if fit == ResultFit() or "blocks" in override.mcp else fit


def _auth_level(annotations: Mapping[str, Any]) -> str:
    """Return the level of authentication. By jsonrpc_mcp's rule, scopes without a level mean "required". A method
    without ``auth`` has no level, and is not open to callers without a token."""
    auth = annotations.get("auth")
    if not isinstance(auth, Mapping):
        return ""
    level = auth.get("level")
    if level in ("none", "optional", "required"):
        return str(level)
    return "required" if auth.get("scopes") else ""


def _description(method: Method, name: str) -> str:
    title = texts.trim_excerpt(method.title, texts.MAX_TITLE)
    text = texts.trim_excerpt(method.description, texts.MAX_DESCRIPTION) or title or name
    return truncate(f"{text}\n\nDeprecated." if method.deprecated else text, texts.MAX_DESCRIPTION)


def _binding(
    method: Method,
    structure: Structure,
    is_known: bool,
    schema: Mapping[str, Any],
    own_names: Mapping[str, str],
    defaults: JsonObject,
    fixed: JsonObject,
    override: ToolOverride,
    policy: ToolPolicy,
) -> Binding:
    is_unknown = method.parameters is None and method.input_schema is None
    spread = SPREAD if is_unknown and structure not in _NAMED else None
    properties = schema.get("properties", {})
    order = () if spread else tuple(properties)
    sent = {name: properties[name]["default"] for name in order if "default" in properties[name]}
    nulls = {name: None for name in order if name not in sent and _takes_null(properties[name])}
    return Binding(
        method=method.wire_name or method.name,
        structure=Structure.BY_POSITION if spread else structure,
        order=order,
        spread_argument=spread,
        gap_values=sent | nulls,
        sent=sent if policy.params.send_defaults else {},
        declares_parameters=policy.form.always_params
        or method.parameters is None
        or bool(schema.keys() - _KEYWORDS_WITHOUT_PARAMETERS or properties),
        notification=method.notification,
        endpoint=method.endpoint,
        timeout=override.timeout,
        default_arguments=defaults,
        fixed_arguments=fixed,
        own_names=own_names,
        structure_is_known=is_known,
        repeatable=bool(override.annotations.readOnlyHint or override.annotations.idempotentHint),
        audited=override.audit,
        form=policy.form,
    )


def _takes_null(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    if kind is not None:
        return kind == "null" or (isinstance(kind, list) and "null" in kind)
    alternatives = schema.get("anyOf", schema.get("oneOf"))
    if isinstance(alternatives, list):
        return any(isinstance(item, Mapping) and _takes_null(item) for item in alternatives)
    return not schema.keys() - ANNOTATIONS
