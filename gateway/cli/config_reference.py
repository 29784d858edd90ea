"""Render the settings and dialects for editors and readers: JSON Schemas, the commented YAML, two pages."""

import json
from collections.abc import Iterator
from typing import Any, Final

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from gateway import credentials
from gateway.config import source as config
from gateway.config.layers import environment_name
from gateway.listing.dialect import PARTS
from gateway.listing.reader import DIALECTS
from gateway.listing.static import FILE_SCHEMA
from gateway.settings import Credentials, ListingCredentials, Settings
from gateway.settings.paths import as_written, documents, element_of, knobs, model_of
from gateway.settings.services import ServiceSections

_SCHEMA_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_ID: Final = "urn:jsonrpc-mcp-gateway:gateway.schema.json"
_MODES: Final = (Credentials.model_fields["mode"], ListingCredentials.model_fields["mode"])
_SERVICES: Final = "services"
_TOOLS: Final = "catalog.tools"
_RELOAD: Final = (
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
_INTRODUCTION = """\
# Dialects

Made by `make config` from `gateway/listing/`; do not edit.

`backend.listing.dialect` names one of these dialects. `auto`, the default, tries those with a number, in that order.
It asks one question at a time, without params, and takes the first dialect that answers. The others have to be named.
`{base}` is `backend.url` without its last path segment. `backend.listing.url` replaces every address that is asked by
GET here, and calls for the listing go to it.
[listings.md](listings.md) says how a listing becomes tools, [new-dialect.md](new-dialect.md) how to add a dialect.
"""


def render(form: str) -> str:
    """Return one of the texts, by its name on the command line."""
    if form == "methods":
        return json.dumps(FILE_SCHEMA, indent=2) + "\n"
    return {"json": _json, "yaml": _yaml, "markdown": _markdown, "dialects": _dialects}[form]()


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
        *(f"# {line}" for line in _RELOAD),
    ]
    for name, field in Settings.model_fields.items():
        lines += ["", *_section(name, field, "", name)] if name != _SERVICES else ["", *_several(field)]
    return "\n".join(lines) + "\n"


def _several(field: FieldInfo) -> Iterator[str]:
    """Yield an example of several services as comments: ``services`` and the ``backend`` below exclude each other."""
    yield f"# {field.description}"
    yield f"# {_SERVICES}:"
    for name in ("crm", "shop"):
        yield f"#   {name}:"
        yield f"#     backend: {{url: https://{name}.example.com/jsonrpc}}"


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
        yield f"{indent}# {_meaning(knob)}"
        yield f"{indent}{key}: {_as_yaml(_EXAMPLES[where] if where in _EXAMPLES else _default(knob))}"
        if where == _TOOLS:
            yield f"{indent}#   method.or.pattern.*:"
            yield from (f"{indent}#     {line}" for line in _knobs_in(element_of(knob), "", where))


def _markdown() -> str:
    lines = [
        "# Configuration",
        "",
        "Made by `make config` from `gateway/settings/`; do not edit.",
        "",
        "Later layers win: the YAML file (`--config`, else `$GATEWAY_CONFIG`, else `gateway.yaml` of this folder), "
        "the environment, `--set section.knob=value`.",
        "The environment name of a knob is its path in upper case: `catalog.ttl` is "
        f"`{environment_name(('catalog', 'ttl'))}`.",
        "",
        "In each layer `${NAME}` is an environment variable, `${file:/path}` the content of a file without its last",
        "newline, and `$${` a literal `${`. They are resolved once: references in their values are not resolved.",
        "Relative names of files in the YAML file start from its folder, all others from the working directory.",
        "",
        "In the environment and in `--set`, text is used as it is, without quotes; an empty one means null where that",
        "is the default. Numbers, booleans, durations, lists, maps and JSON are YAML there as in the file.",
        "A text may also be in a file of its own, whose content is used as it is, without its last newline:",
        "`GATEWAY__BACKEND__CREDENTIALS__PASSWORD_FILE=/run/secrets/backend` sets `backend.credentials.password`.",
        "",
        "Durations are `500ms`, `30s`, `5m`, `1h`, `1d`; sizes `512KiB`, `1MiB`. A bare number is seconds, or bytes.",
        "",
        "A reload (SIGHUP, or a change of the file) applies",
        *_RELOAD,
        "",
        "With several services, each has the sections "
        f"{', '.join(f'`{name}`' for name in ServiceSections.model_fields)}, whose knobs are those below:",
        "`backend.url` of the service `crm` is `services.crm.backend.url`, or "
        f"`{environment_name(('services', 'crm', 'backend', 'url'))}`.",
        "See [services.md](services.md).",
        "",
        "| knob | default | meaning |",
        "|---|---|---|",
    ]
    lines += [_row(path, field) for path, field in knobs()]
    for path, model in documents():
        lines += ["", f"Members of `{path}`:", "", "| member | default | meaning |", "|---|---|---|"]
        lines += [_row(member.alias or name, member) for name, member in model.model_fields.items()]
    lines.append("")
    return "\n".join(lines)


def _row(name: str, field: FieldInfo) -> str:
    default = "required" if field.is_required() else f"`{_as_yaml(_default(field))}`"
    meaning = _meaning(field).replace("|", "\\|")
    return f"| `{name}` | {default} | {meaning} |"


def _meaning(field: FieldInfo) -> str:
    """Return the help of a knob. That of the modes of credentials is made from the modes."""
    if any(field is mode for mode in _MODES):
        return credentials.HELP
    bounds = ((word, getattr(part, key, None)) for part in field.metadata for key, word in _BOUNDS.items())
    shown = [f"{word} {as_written(bound, field)}" for word, bound in bounds if bound]
    return (field.description or "") + (f" ({', '.join(shown)})" if shown else "")


def _default(field: FieldInfo) -> Any:
    """Return the default as it is written in YAML."""
    default = field.get_default(call_default_factory=True)
    if isinstance(default, tuple):
        return list(default)
    if isinstance(default, BaseModel):
        return default.model_dump(by_alias=True, exclude_defaults=True)
    return as_written(default, field)


def _as_yaml(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=10_000, allow_unicode=True, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...").strip()


def _dialects() -> str:
    """Return ``docs/dialects.md``: what each dialect says about itself, in the order of probing."""
    left_out = [line for name, one in DIALECTS.items() for line in (f"**{name}**: {one.info.not_carried}", "")]
    return "\n".join([_INTRODUCTION, *_requests(), "", *_carried(), "", "## What is not carried", "", *left_out])


def _requests() -> Iterator[str]:
    yield from ("| | dialect | spoken by | asked | recognized by |", "|---|---|---|---|---|")
    number = 0
    for name, dialect in DIALECTS.items():
        info = dialect.info
        number += info.probed
        first = number if info.probed else ""
        yield f"| {first} | `{name}` | {info.spoken_by} | {info.requests} | {info.recognized_by} |"


def _carried() -> Iterator[str]:
    yield from ("## What is carried", "", "Besides the name of each method:", "")
    yield f"| dialect | {' | '.join(PARTS)} | passed |"
    yield "|---" * (len(PARTS) + 2) + "|"
    for name, dialect in DIALECTS.items():
        marks = ("✓" if part in dialect.info.carries else "" for part in PARTS)
        yield f"| `{name}` | {' | '.join(marks)} | {dialect.info.params} |"
