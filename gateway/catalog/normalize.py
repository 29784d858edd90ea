"""Method → Tool, as Drupal's bridge defines it: id → name, usage → description, params → inputSchema, output →
outputSchema, title and annotations.

What can be repaired is repaired. A method that cannot become a sound tool raises :class:`UnsoundSchema`;
:mod:`gateway.catalog.build` quarantines it and names the override that would help. A bad output schema is dropped
instead, since the tool is useful without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from gateway import jsonrpc
from gateway.catalog.curation import CHANGES_SITE, moves_value
from gateway.catalog.names import (
    ArgumentDefaults,
    check_defaults,
    header_parameters,
    override_arguments,
    publish_names,
    without_parameters,
)
from gateway.jsonrpc import pointer_of
from gateway.model import (
    CLOSED,
    HINTS,
    Binding,
    JsonObject,
    MessageForm,
    Method,
    NameStyle,
    Schema,
    Structure,
    Tool,
    Version,
)
from gateway.model.schema_keywords import ANNOTATIONS
from gateway.schema.bundling import Bundler, UnsoundSchema, bundle_schema, object_schema
from gateway.schema.drafts import says_required
from gateway.schema.texts import (
    MAX_DESCRIPTION,
    clean_schema_texts,
    clean_title,
    clean_value_texts,
    remove_hidden_characters,
    trim_excerpt,
    without_refused_defaults,
)
from gateway.schema.validation import ValidatorCache
from gateway.settings import Params, ToolOverride
from gateway.text import excerpt, truncate

SPREAD: Final = "params"
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
    """Hold what applies to all methods: the operator's settings, and what the listing says of all of them (see
    :class:`~gateway.model.Listing`)."""

    params: Params
    trust_annotations: bool = False
    form: MessageForm = field(default_factory=MessageForm)
    by_position: bool = False
    leading_params: bool = False


def build_tool(
    method: Method,
    names: Mapping[NameStyle, str],
    override: ToolOverride,
    policy: ToolPolicy,
    validators: ValidatorCache,
) -> Tool:
    """Return the tool for a method. Raises :class:`UnsoundSchema`."""
    method = _apply_override(_apply_required_of_draft_3(method), override)
    structure = _structure(method, override, policy)
    if structure is Structure.BY_POSITION and not method.is_complete:
        method = replace(method, parameters=None)  # whoever guesses their order calls wrongly
    whole = clean_schema_texts(_input_schema(method, structure))
    defaults = check_defaults(override.arguments, whole, validators)
    caller_schema = (
        clean_schema_texts(_input_schema(without_parameters(method, defaults.fixed), structure))
        if defaults.fixed
        else whole
    )
    closed = _is_closed(method, structure)
    # Compiled now, so that a schema that is invalid or too costly quarantines its method before any call.
    validators.compile({**caller_schema, **CLOSED} if closed else caller_schema)
    published_schema, renamed = publish_names(caller_schema)
    whole_input, mirrored_headers = header_parameters(published_schema)
    whole_output, note = _output_schema(method, override, validators)
    input_schema = remove_hidden_characters(whole_input)
    shown_input = without_refused_defaults(input_schema, validators)
    output_schema = None if whole_output is None else remove_hidden_characters(whole_output, results=True)
    annotations, leftover = _annotations(method, override, policy.trust_annotations)
    name = names[NameStyle.MCP]
    return Tool(
        name=name,
        names=names,
        method=method.name,
        title=clean_title(method.title),
        description=_description(method, name),
        input_schema=input_schema,
        closed=closed,
        output_schema=output_schema,
        input_check=None if input_schema is whole_input else whole_input,
        shown_input=None if shown_input is input_schema else shown_input,
        output_check=None if output_schema is whole_output else whole_output,
        annotations=annotations,
        meta=_meta(method, leftover, note),
        scopes=method.scopes if override.scopes is None else frozenset(override.scopes),
        auth_level=_auth_level(method.annotations) if override.scopes is None else "required",
        headers=mirrored_headers,
        requires={word: {} for word in override.mcp if word in _CAPABILITIES},
        returns_blocks="blocks" in override.mcp,
        input_required="input_required" in override.mcp,
        confirm=_needs_confirmation(annotations, override),
        limit=override.limit,
        binding=_binding(method, structure, whole, renamed, defaults, override, policy),
    )


def _meta(method: Method, annotations: JsonObject, dropped: str | None) -> dict[str, Any]:
    """Return the tool's ``_meta``: that of the listing, ``annotations`` that are not hints of MCP, and why an output
    schema was ``dropped``."""
    meta: dict[str, Any] = clean_value_texts(method.meta)
    if method.deprecated:
        meta["deprecated"] = True
    if annotations and len(jsonrpc.encode_canonical(annotations)) <= MAX_META:
        meta["annotations"] = clean_value_texts(annotations)
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
    """Return the method with the operator's overrides."""
    changes: dict[str, Any] = {}
    if override.title is not None:
        changes["title"] = override.title
    if override.description is not None:
        changes["description"] = override.description
    if override.scopes is not None:
        changes["scopes"] = frozenset(override.scopes)
    if override.arguments:
        changes.update(override_arguments(method, override.arguments))
    return replace(method, **changes) if changes else method


def _structure(method: Method, override: ToolOverride, policy: ToolPolicy) -> Structure:
    params = policy.params
    if override.structure is not None:
        return Structure(override.structure)
    if params.structure != "auto":
        return Structure(params.structure)
    if method.structure not in (Structure.EITHER, Structure.UNKNOWN):
        return method.structure
    if policy.leading_params or policy.form.version is Version.ONE:
        return Structure.BY_POSITION  # what stands before params is positional, and JSON-RPC 1.0 has nothing else
    if method.structure is Structure.EITHER:
        return Structure.BY_NAME
    if method.parameters is None and method.input_schema is None:
        return Structure.UNKNOWN  # one argument, a list or an object: the caller chooses
    return Structure.BY_POSITION if policy.by_position else Structure.BY_NAME


def _is_structure_known(method: Method, override: ToolOverride, policy: ToolPolicy) -> bool:
    """Tell whether the operator or the listing says how params are sent, or it makes no difference: a method whose
    parameters are unknown, or that has none."""
    return (
        override.structure is not None
        or policy.params.structure != "auto"
        or policy.form.version is Version.ONE
        or not (method.is_complete and method.input_schema is None)  # no order, so nothing but names can be tried
        or method.structure is not Structure.UNKNOWN
        or method.parameters in (None, ())
    )


def _input_schema(method: Method, structure: Structure) -> dict[str, Any]:
    if isinstance(method.input_schema, bool):
        raise UnsoundSchema("its entry has no inputSchema that is an object")
    if method.input_schema is not None:
        return object_schema(method.input_schema)
    if method.parameters is None:
        if structure in _NAMED:
            return {"type": "object"}
        spread: dict[str, Any] = {"type": "array", "description": "The positional parameters, in order."}
        if structure is Structure.UNKNOWN:
            spread = {
                "type": ["array", "object"],
                "description": "The parameters: by position a list, by name an object.",
            }
        return {"type": "object", "properties": {SPREAD: spread}}
    bundler = Bundler(method.root)
    properties: dict[str, Any] = {}
    for parameter in method.parameters:
        try:
            schema = bundler.add_schema(parameter.schema, pointer_of(("properties", parameter.name)))
        except UnsoundSchema as error:
            raise UnsoundSchema(error.reason, error.pointer, parameter.name) from None
        if parameter.description:  # parameters may share a schema, whose text describes none of them
            schema = {**schema, "description": excerpt(parameter.description, MAX_DESCRIPTION)}
        properties[parameter.name] = schema
    whole: dict[str, Any] = {"type": "object", "properties": properties}
    required = [parameter.name for parameter in method.parameters if parameter.required]
    if required:
        whole["required"] = required
    return bundler.finish(whole)


def _is_closed(method: Method, structure: Structure) -> bool:
    """Tell whether the listing names all arguments. A whole schema decides itself whether it allows others."""
    if method.input_schema is not None:
        return False
    return (method.parameters is not None and method.is_complete) or structure not in _NAMED


def _output_schema(
    method: Method, override: ToolOverride, validators: ValidatorCache
) -> tuple[dict[str, Any] | None, str | None]:
    """Return the output schema, or None and the fault for which it is dropped, if any."""
    # A listing describes the whole result. For a result that is MCP content, the schema is of structuredContent alone.
    declared: Schema | None = None if "blocks" in override.mcp else method.result
    if override.output_schema is not None:
        declared = override.output_schema
    if declared is None or isinstance(declared, bool) or not declared:
        return None, None
    try:
        schema = clean_schema_texts(bundle_schema(declared, method.root))
        validators.compile(schema)
    except UnsoundSchema as error:
        return None, error.reason
    constrains = schema.keys() - ANNOTATIONS
    return (schema if constrains else None), None


def _annotations(method: Method, override: ToolOverride, trusted: bool) -> tuple[JsonObject, dict[str, Any]]:
    """Return the published hints, and the backend's other annotations for ``_meta``. A method that moves money, signs
    or changes a whole site is marked destructive, unless the backend is trusted and says that it changes nothing."""
    leftover = {key: value for key, value in method.annotations.items() if isinstance(key, str)}
    published: dict[str, Any] = {}
    if trusted:
        published = {key: leftover.pop(key) for key in HINTS if isinstance(leftover.get(key), bool)}
    changes_site = method.name in CHANGES_SITE and method.dialect in ("drupal", "jsonrpc_mcp")
    if (changes_site or moves_value(method.name)) and published.get("readOnlyHint") is not True:
        published["destructiveHint"] = True
    published |= override.annotations.model_dump(exclude_none=True)
    return published, leftover


def _needs_confirmation(annotations: JsonObject, override: ToolOverride) -> bool:
    """Tell whether a person has to agree to each call. A tool without ``destructiveHint`` is not destructive here,
    although MCP assumes so."""
    if override.confirm == "destructive":
        return annotations.get("destructiveHint") is True
    return bool(override.confirm)


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
    text = trim_excerpt(method.description, MAX_DESCRIPTION) or clean_title(method.title) or name
    if method.deprecated:
        text = f"{text}\n\nDeprecated."
    return truncate(text, MAX_DESCRIPTION)


def _binding(
    method: Method,
    structure: Structure,
    schema: Mapping[str, Any],
    own_names: Mapping[str, str],
    defaults: ArgumentDefaults,
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
        default_arguments=defaults.fills,
        fixed_arguments=defaults.fixed,
        own_names=own_names,
        structure_is_known=_is_structure_known(method, override, policy),
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
