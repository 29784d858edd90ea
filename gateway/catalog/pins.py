"""Keep pins: what was reviewed of each tool, so that a later change by the backend is detected (security S14).

A pin has what a model reads, what decides who may call, and what decides how the backend is called, all in full for the
reviewer. Of schemas a digest decides. Its key is the backend's method, whatever name an override gives it.
"""

import hashlib
import os
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from gateway import jsonrpc
from gateway.catalog.curation import CHANGES_SITE
from gateway.model import Binding, QuarantinedMethod, Structure, Tool

MAX_BYTES: Final = 64 * 1024**2
_REMEDY: Final = "review it with `tools --diff` and the pin file, then run `tools --pin`"


class PinError(Exception):
    """Raised where the pin file cannot be used; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Pin:
    """Hold what was reviewed of one tool. ``arguments`` are sorted, except for a method called by position, whose order
    counts. ``annotations`` are all that MCP or REST publishes; ``closed`` says that other arguments are refused.
    ``schemas`` are both as they were reviewed, to name what changed; files of earlier releases have none."""

    name: str
    title: str
    description: str
    arguments: list[str]
    input_schema: str
    output_schema: str | None
    annotations: Mapping[str, Any]
    scopes: list[str]
    auth_level: str
    structure: str
    endpoint: str | None
    notification: bool
    closed: bool
    schemas: Mapping[str, Any] = field(default_factory=dict, compare=False)


_NOT_PINNED: Final = frozenset((
    # the operator sets these
    "names", "requires", "returns_blocks", "input_required", "confirm", "coerces", "fit", "limit", "timeout",
    "default_arguments", "fixed_arguments", "structure_is_known", "repeatable", "is_builtin", "sent", "audited",
    # derived from pinned fields, and the key of a pin
    "order", "spread_argument", "gap_values", "declares_parameters", "own_names", "headers", "binding", "method",
    # no model reads these
    "meta", "input_check", "output_check", "shown_input", "drops_defaults",
    # learned from the backend
    "form",
))  # fmt: skip
"""Fields of a tool and its binding that are not pinned. Every other one is a field of :class:`Pin` too."""


def _check_complete(noun: Tool | Binding) -> None:
    """Raise :class:`TypeError` for a field that is neither in :class:`Pin` nor in ``_NOT_PINNED``."""
    forgotten = {one.name for one in fields(noun)} - {one.name for one in fields(Pin)} - _NOT_PINNED
    if forgotten:
        raise TypeError(f"{type(noun).__name__}: {', '.join(sorted(forgotten))}: add to Pin or to _NOT_PINNED")


@dataclass(frozen=True, slots=True)
class Pins:
    """Hold all pins, by method. A tool without a pin, or that differs from its pin, is quarantined."""

    by_method: Mapping[str, Pin]

    def admits(self, method: str) -> bool:
        return method in self.by_method

    def unreviewed(self, method: str) -> QuarantinedMethod:
        return QuarantinedMethod(method, "new since the tools were pinned", _REMEDY, held_by_pin=True)

    def drift(self, tool: Tool) -> QuarantinedMethod | None:
        """Return the quarantine of a tool that differs from its pin, None where it is equal."""
        pinned = self.by_method.get(tool.method)
        if pinned is None:
            return self.unreviewed(tool.method)
        now, names = pin_of(tool), [one.name for one in fields(Pin) if one.compare]
        changed = [name.replace("_", " ") for name in names if getattr(pinned, name) != getattr(now, name)]
        reason = f"changed since it was pinned: {', '.join(changed)}"
        return QuarantinedMethod(tool.method, reason, _REMEDY, held_by_pin=True) if changed else None


def pin_of(tool: Tool) -> Pin:
    """Return the pin of a tool as it is now."""
    _check_complete(tool)
    _check_complete(tool.binding)
    arguments = list(tool.input_schema.get("properties", {}))
    return Pin(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        arguments=arguments if tool.binding.structure is Structure.BY_POSITION else sorted(arguments),
        input_schema=schema_digest(tool.input_schema),
        output_schema=None if tool.output_schema is None else schema_digest(tool.output_schema),
        annotations=_listed(tool.method, tool.all_annotations),
        scopes=sorted(tool.scopes),
        auth_level=tool.auth_level,
        structure=str(tool.binding.structure),
        endpoint=tool.binding.endpoint,
        notification=tool.binding.notification,
        closed=tool.closed,
        schemas={"input": tool.input_schema, **({"output": tool.output_schema} if tool.output_schema else {})},
    )


def _listed(method: str, annotations: Mapping[str, Any]) -> dict[str, Any]:
    """Return annotations without the gateway's own mark of a method, which the service did not list."""
    own = {"destructiveHint"} if method in CHANGES_SITE else ()
    return {name: value for name, value in sorted(annotations.items()) if name not in own}


def schema_digest(schema: Any) -> str:
    """Return a digest that ignores the order of members and of required names."""
    return "sha256:" + hashlib.sha256(jsonrpc.encode_canonical(_normalize_order(schema))).hexdigest()


def _normalize_order(value: Any) -> Any:
    if isinstance(value, list):
        return [_normalize_order(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    return {
        key: sorted(child, key=str) if key == "required" and isinstance(child, list) else _normalize_order(child)
        for key, child in value.items()
    }


def read_pins(file: Path) -> dict[str, Pin]:
    """Return the pins of a file by method. Raises :class:`PinError`."""
    try:
        if file.stat().st_size > MAX_BYTES:
            raise PinError(f"{file}: larger than 64 MiB")
        content = jsonrpc.decode(file.read_bytes())
    except FileNotFoundError:
        raise PinError(f"{file}: no such file; `tools --pin` writes it") from None
    except OSError as error:
        raise PinError(f"{file}: {error.strerror or error}") from None
    except ValueError as error:
        raise PinError(f"{file}: not JSON: {error}; `tools --pin` writes it again") from None
    return parse_pins(content, str(file))


def parse_pins(content: Any, origin: str) -> dict[str, Pin]:
    """Return the pins in a file's content. Raises :class:`PinError`, which names ``origin`` and the entry."""
    entries = content.get("tools") if isinstance(content, dict) else None
    if not isinstance(entries, dict):
        raise PinError(f"{origin}: not a pin file, which has tools by method; `tools --pin` writes it again")
    pins = {}
    for method, entry in entries.items():
        try:
            pin = Pin(**entry)  # raises TypeError for other members
            jsonrpc.read_as(Pin, entry)  # raises ValueError for other types
            pins[method] = replace(pin, annotations=_listed(method, pin.annotations))
        except (TypeError, ValueError):
            raise PinError(f'{origin}: the entry "{method}" is not a pin; `tools --pin` writes it again') from None
    return pins


def write_pins(file: Path, tools: Iterable[Tool]) -> None:
    """Write the pins of tools. Raises :class:`OSError`."""
    pins = {tool.method: asdict(pin_of(tool)) for tool in sorted(tools, key=lambda tool: tool.method)}
    replace_file(file, jsonrpc.pretty({"tools": pins}) + "\n")


def replace_file(file: Path, text: str) -> None:
    """Write a file in one step: no reader sees half of it. An old one keeps its mode, and its owner where root writes;
    a new one has the mode that the umask leaves. A link is followed. Raises :class:`OSError`."""
    target = file.resolve()
    old = target.stat() if target.exists() else None
    scratch = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    mode = 0o666 if old is None else 0o600  # nobody else may read what nobody else could
    try:
        opener = partial(os.open, mode=mode)
        with open(scratch, "x", encoding="utf-8", newline="", opener=opener) as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        if old is not None:
            if hasattr(os, "chown"):
                with suppress(PermissionError):
                    os.chown(scratch, old.st_uid, old.st_gid)
            scratch.chmod(old.st_mode & 0o777)
        scratch.replace(target)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
