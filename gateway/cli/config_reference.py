"""Render the settings for editors and readers: JSON Schemas, and the commented YAML."""

import json
from collections.abc import Iterator
from typing import Any, Final

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from gateway import credentials
from gateway.config import source as config
from gateway.listing.static import FILE_SCHEMA
from gateway.settings import Credentials, ListingCredentials, Settings
from gateway.settings.paths import as_written, element_of, model_of

_SCHEMA_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_ID: Final = "urn:jsonrpc-mcp-gateway:gateway.schema.json"
_MODES: Final = (Credentials.model_fields["mode"], ListingCredentials.model_fields["mode"])
_EXCLUDING: Final = {  # what the file has as comments, with an example: `backend` below excludes `services`
    "services": [f"{name}: {{backend: {{url: https://{name}.example.com/jsonrpc}}}}" for name in ("crm", "shop")],
    "groups": ["all: {services: [crm, shop]}"],
}
_TOOLS: Final = "catalog.tools"
RELOAD: Final = (
    f"all but {', '.join(f'`{prefix}*`' for prefix in config.RESTART)}, of which it applies",
    f"{', '.join(f'`{knob}`' for knob in config.LIVE)} alone;",
    "the others keep their value until a restart, and the log names them.",
)
_BOUNDS: Final = {"gt": "more than", "ge": "at least", "le": "at most"}
# What the commented YAML has for required knobs, which have no default.
_EXAMPLES: Final[dict[str, Any]] = {
    "backend.url": "http://127.0.0.1:8000/jsonrpc",
    "auth.issuers": [{"issuer": "https://login.example.com"}],
}


STARTER: Final = """\
# yaml-language-server: $schema=gateway.schema.json
# That schema: schema --format json. Every knob: schema --format yaml. What is still wrong: check --config gateway.yaml.
server:
  public_url: https://gw.example.com               # where clients reach the gateway; /mcp follows
backend:
  url: http://127.0.0.1:8000/jsonrpc               # the service's JSON-RPC endpoint
  credentials:
    backend_audience: https://gw.example.com/mcp   # the audience that the service requires of a token
auth:                                              # for callers without tokens, on this machine: {mode: "off"}
  issuers: [{issuer: https://login.example.com}]   # whose access tokens are accepted
catalog:
  include: ["*"]                                   # patterns of the methods to offer
"""


def render(form: str) -> str:
    """Return one of the texts, by its name on the command line."""
    if form == "methods":
        return json.dumps(FILE_SCHEMA, indent=2) + "\n"
    return _yaml() if form == "yaml" else _json()


def _json() -> str:
    schema = {"$schema": _SCHEMA_DIALECT, "$id": _ID, **Settings.model_json_schema()}
    for section in (Credentials, ListingCredentials):
        schema["$defs"][section.__name__]["properties"]["mode"] |= {
            "description": credentials.HELP,
            "enum": [credentials.AUTO, *credentials.MODES],
        }
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _yaml() -> str:
    lines = [
        "# yaml-language-server: $schema=gateway.schema.json",
        "#",
        "# Every knob with its default. Made by `make config`.",
        "# Required are backend.url and auth.issuers, whose values here are examples, and backend_audience where the",
        "# callers' own tokens are sent to the backend, as by default. With auth.mode: off only backend.url is.",
        "# Durations: 500ms, 30s, 5m, 1h, 1d. Sizes: 512KiB, 1MiB. Rates: 60/minute. A bare number: seconds, or bytes.",
        "# ${NAME} is an environment variable, ${file:/path} the content of a file, $${ a literal ${.",
        "# Any knob can also be set in the environment (GATEWAY__BACKEND__URL) or with --set backend.url=...",
        "# There, text is used as it is, without quotes; everything else is YAML, as here.",
        "# A reload (SIGHUP, or a change of this file) applies",
        *(f"# {line}" for line in RELOAD),
    ]
    for name, field in Settings.model_fields.items():
        if name in _EXCLUDING:
            lines += ["", f"# {field.description}", f"# {name}:", *(f"#   {line}" for line in _EXCLUDING[name])]
        else:
            lines += ["", *_section(name, field, "", name)]
    return "\n".join(lines) + "\n"


def _section(name: str, field: FieldInfo, indent: str, path: str) -> Iterator[str]:
    yield f"{indent}# {field.description}"
    yield f"{indent}{name}:"
    yield from _knobs_in(model_of(field), indent + "  ", path)


def _knobs_in(model: type[BaseModel] | None, indent: str, path: str) -> Iterator[str]:
    """Yield the knobs of a section, those of one tool as comments: there is no override by default."""
    for attribute, knob in model.model_fields.items() if model is not None else ():
        key = knob.alias or attribute
        where = f"{path}.{key}"
        if model_of(knob) is not None:
            yield from _section(key, knob, indent, where)
            continue
        yield f"{indent}# {meaning(knob)}"
        yield f"{indent}{key}: {as_yaml(_EXAMPLES[where] if where in _EXAMPLES else default_of(knob))}"
        if where == _TOOLS:
            yield f"{indent}#   method.or.pattern.*:"
            yield from (f"{indent}#     {line}" for line in _knobs_in(element_of(knob), "", where))


def meaning(field: FieldInfo) -> str:
    """Return the help of a knob. That of the modes of credentials is made from the modes."""
    if any(field is mode for mode in _MODES):
        return credentials.HELP
    bounds = ((word, getattr(part, key, None)) for part in field.metadata for key, word in _BOUNDS.items())
    shown = [f"{word} {as_written(bound, field)}" for word, bound in bounds if bound]
    return (field.description or "") + (f" ({', '.join(shown)})" if shown else "")


def default_of(field: FieldInfo) -> Any:
    """Return the default as it is written in YAML."""
    default = field.get_default(call_default_factory=True)
    if isinstance(default, tuple):
        return list(default)
    if isinstance(default, BaseModel):
        return default.model_dump(by_alias=True, exclude_defaults=True)
    return as_written(default, field)


def as_yaml(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=10_000, allow_unicode=True, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...").strip()
