"""Write a methods file (``dialect: static``) of what a listing gave, for a person to complete."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml

from gateway.model import Listing, Method, Parameter, Structure, Version
from gateway.schema.bundling import Bundler, UnsoundSchema
from gateway.settings import ServiceSettings
from gateway.text import has_hidden_characters, masked_url, printable

_EXAMPLE: Final = "name: {schema: {type: string}, required: true, description: What it is.}"
_WRITTEN: Final = (Structure.BY_POSITION, Structure.BY_NAME_IN_LIST)
_UNPRINTABLE: Final = re.compile(r"\s+")


class _Dumper(yaml.SafeDumper):
    """Write a text of several lines as a block, and a schema that stands twice without an alias."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_representer(
    str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" * ("\n" in text) or None)
)


def render_methods(settings: ServiceSettings, listing: Listing, offered: frozenset[str]) -> str:
    """Return the file for ``dialect: static``: an entry for each method in ``offered``, and what has to be added."""
    return "\n".join([*_head(settings, listing), "methods:", *_entries(listing, offered)]) + "\n"


def _head(settings: ServiceSettings, listing: Listing) -> Iterator[str]:
    knob = settings.knob
    yield f"# The methods of {printable(masked_url(settings.backend.url))}, from its listing ({listing.dialect})."
    yield "# Complete what the listing does not say, then set:"
    yield f"#   {knob('backend.listing.dialect')}: static"
    yield f"#   {knob('backend.listing.file')}: this file"
    # Nothing is asked with a file, so these cannot be found out.
    if listing.form.version is Version.ONE:
        yield f'#   {knob("backend.version")}: "1.0"'
    elif listing.form.always_params:
        yield f"#   {knob('backend.version')}: 2.0-with-params"
    if listing.form.integer_ids:
        yield f"#   {knob('backend.ids')}: integer"
    yield "# docs/listings.md describes the form. The parameters of a method are written so, in order:"
    yield "#   params:"
    yield f"#     {_EXAMPLE}"


def _entries(listing: Listing, offered: frozenset[str]) -> Iterator[str]:
    for method in listing.methods:
        if method.name not in offered:
            continue
        entry, missing = _entry(method, by_position=listing.by_position)
        yield from (f"  {line}".rstrip() for line in _yaml({method.name: entry}).splitlines())
        yield from (f"    # {note}" for note in missing)
    for left_out in listing.quarantined:
        yield _UNPRINTABLE.sub(" ", printable(f"  # {left_out.name} is left out: {left_out.reason}"))


def _yaml(entry: dict[str, Any]) -> str:
    """Return the entry as YAML. With a character that people cannot see, all beyond ASCII is escaped."""

    def dumped(*, plain: bool) -> str:
        return yaml.dump(entry, Dumper=_Dumper, sort_keys=False, allow_unicode=plain, width=110)

    text = dumped(plain=True)
    return dumped(plain=False) if has_hidden_characters(text) else text


def _entry(method: Method, *, by_position: bool) -> tuple[dict[str, Any], list[str]]:
    """Return the entry of a method, and what a person should add."""
    texts = {"title": method.title, "description": method.description}
    entry: dict[str, Any] = {member: text for member, text in texts.items() if text}
    missing = []
    if not method.description:
        missing.append("description: what it does, for a model to choose by")
    structure = method.structure
    has_order = method.parameters is not None and method.input_schema is None and method.is_complete
    if structure is Structure.UNKNOWN and by_position and has_order:
        structure = Structure.BY_POSITION
    if structure in _WRITTEN or (structure is Structure.BY_NAME and method.parameters is None):
        entry["structure"] = str(structure)
    entry |= _parameters(method)
    if entry.get("params", ()) is None:
        missing.append("params: which parameters it has; null is unknown, {} is none")
    if method.notification or method.result is not None:
        entry["result"] = False if method.notification else _self_contained(method.result, method)
    if method.annotations:
        entry["annotations"] = dict(method.annotations)
    if method.deprecated:
        entry["deprecated"] = True
    if method.endpoint is not None:
        entry["endpoint"] = method.endpoint
    return entry, missing


def _parameters(method: Method) -> dict[str, Any]:
    """Return the member with the parameters: ``params``, or ``input_schema`` where schemas refer to shared types."""
    if isinstance(method.input_schema, Mapping):
        return {"input_schema": dict(method.input_schema)}
    if method.parameters is None or method.input_schema is False:
        return {"params": None}
    bundler = Bundler(method.root)
    try:
        schemas = {one.name: bundler.add_schema(one.schema) for one in method.parameters}
        if bundler.definitions or not method.is_complete:  # such a schema allows further arguments
            required = [one.name for one in method.parameters if one.required]
            whole = {"type": "object", "properties": schemas} | ({"required": required} if required else {})
            return {"input_schema": bundler.finish(whole)}
    except UnsoundSchema:  # its method is quarantined as it is, and a person has to say what the arguments are
        schemas = {}
    return {"params": {one.name: _parameter(one, schemas.get(one.name, {})) for one in method.parameters}}


def _parameter(parameter: Parameter, schema: Mapping[str, Any]) -> dict[str, Any]:
    written: dict[str, Any] = {"schema": dict(schema)} if schema else {}
    if parameter.required:
        written["required"] = True
    if parameter.description:
        written["description"] = parameter.description
    return written


def _self_contained(schema: Any, method: Method) -> Any:
    bundler = Bundler(method.root)
    try:
        return bundler.finish(bundler.add_schema(schema))
    except UnsoundSchema:
        return True
