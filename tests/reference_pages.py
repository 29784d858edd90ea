"""Write the pages of docs/ that derive from the settings and the dialects: ``python -m tests.reference_pages``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, get_args

from pydantic.fields import FieldInfo

from gateway.cli.config_reference import RELOAD, as_yaml, default_of, meaning
from gateway.config.layers import environment_name
from gateway.listing.dialect import Part
from gateway.listing.reader import DIALECTS
from gateway.settings.paths import documents, knobs
from gateway.settings.services import ServiceSections

_PARTS: Final = get_args(Part)
_DOCS: Final = Path(__file__).parents[1] / "docs"
_INTRODUCTION: Final = """\
# Dialects

Made by `make config` from `gateway/listing/`; do not edit.

`backend.listing.dialect` names one of these dialects. `auto`, the default, tries those with a number, in that order.
It asks one question at a time, without params, and takes the first dialect that answers: `rpc.discover` first, then the
calls of all, and then what is asked by GET; Drupal's come at once where the first answer or a path that ends in
`/jsonrpc` looks like it. The others have to be named.
`{base}` is `backend.url` without its last path segment. `backend.listing.url` replaces every address that is asked by
GET here, and calls for the listing go to it.
[listings.md](listings.md) says how a listing becomes tools, [new-dialect.md](new-dialect.md) how to add a dialect.
"""


def configuration() -> str:
    """Return docs/configuration.md: each knob with its default."""
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
        *RELOAD,
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
    default = "required" if field.is_required() else f"`{as_yaml(default_of(field))}`"
    help_text = meaning(field).replace("|", "\\|")
    return f"| `{name}` | {default} | {help_text} |"


def dialects() -> str:
    """Return docs/dialects.md: what each dialect says about itself, in the order of probing."""
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
    yield f"| dialect | {' | '.join(_PARTS)} | passed |"
    yield "|---" * (len(_PARTS) + 2) + "|"
    for name, dialect in DIALECTS.items():
        marks = ("✓" if part in dialect.info.carries else "" for part in _PARTS)
        yield f"| `{name}` | {' | '.join(marks)} | {dialect.info.params} |"


PAGES: Final[Mapping[Path, Callable[[], str]]] = {
    _DOCS / "configuration.md": configuration,
    _DOCS / "dialects.md": dialects,
}

if __name__ == "__main__":
    for page, text in PAGES.items():
        page.write_text(text(), encoding="utf-8")
