"""The configuration of a gateway, read and checked: all faults at once. :mod:`gateway.layers` says where it is from."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from gateway import credentials
from gateway.layers import FILES, Layers
from gateway.settings import Settings
from gateway.settings.paths import Key, find, keys_of

_SAID: Final = {
    "missing": "is required",
    "string_type": "must be a text; in quotes, if YAML takes it for something else",
    "tuple_type": "must be a list, such as [one, two]",
    "dict_type": "must be a mapping, such as {name: value}",
    "model_type": "must be a mapping, such as {name: value}",
}
"""What pydantic would say in the words of Python's types."""


class ConfigError(Exception):
    """The configuration cannot be used; ``faults`` has one line for each thing that is wrong with it."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = tuple(faults)


class Source:
    """Where settings come from: a file, the environment and ``overrides``. ``files`` are those that the last load read:
    the file itself, and those whose content stands in a knob."""

    def __init__(self, file: Path | None, overrides: Iterable[str] = ()) -> None:
        self.files: frozenset[Path] = frozenset()
        self._file = file
        self._overrides = tuple(overrides)

    def load(self) -> Settings:
        """Raises :class:`ConfigError`; ``files`` are told in any case."""
        read: set[Path] = set()
        try:
            return load(self._file, self._overrides, read=read)
        finally:
            self.files = frozenset(read)


def load(
    file: Path | None = None,
    overrides: Iterable[str] = (),
    environ: Mapping[str, str] | None = None,
    read: set[Path] | None = None,
) -> Settings:
    """The settings from all layers; ``read`` gets the files that they were read from. Raises :class:`ConfigError`."""
    layers = Layers(os.environ if environ is None else environ)
    if file is not None:
        layers.add_file(file)
    layers.add_environment()
    for override in overrides:
        layers.add_override(override)
    if read is not None:
        read |= layers.files
    faults = layers.faults
    try:
        settings = Settings.model_validate(layers.tree, context=credentials.section_faults)
        if not layers.unread:  # which may be what is missing
            faults += credentials.faults_of(settings)
    except ValidationError as error:
        faults += _faults_of(error, layers.unread)
    if faults:
        raise ConfigError(faults)
    return settings


def _faults_of(error: ValidationError, unread: Iterable[tuple[Key, ...]]) -> list[str]:
    """What is wrong with the values that could be read; a section above an unread one may be right but for that."""
    faults = []
    for detail in error.errors(include_url=False, include_input=False):
        if any(all(one == other for one, other in zip(path, detail["loc"], strict=False)) for path in unread):
            continue
        where = detail["loc"] if detail["type"] != "missing" else _lacking(detail["loc"])
        path = ".".join(str(part) for part in where)
        text = detail["msg"].removeprefix("Value error, ")
        if detail["type"] == "extra_forbidden":
            text = f"unknown key{_suggestion(detail['loc'])}"
        else:
            text = _SAID.get(detail["type"], text)
        faults.append(f"{path}: {text}" if path else text)
    return faults


def _lacking(location: tuple[Key, ...]) -> tuple[Key, ...]:
    """The knob that has to be given where it is missing, or its whole section."""
    section = find(location)
    required = [name for name, field in keys_of(section).items() if field.is_required()] if section else []
    return (*location, *required[:1])


def _suggestion(location: tuple[int | str, ...]) -> str:
    section = find(location[:-1])
    known = ", ".join(keys_of(section)) if section else ""
    return f"; known here: {known}" if known else ""


@dataclass(frozen=True)
class Change:
    """What a reload comes to: the settings to go on with, and the knobs that keep their old value."""

    settings: Settings
    changed: tuple[str, ...]
    needs_restart: tuple[str, ...]


def merge(old: Settings, new: Settings) -> Change:
    """``new`` where its knobs are live, ``old`` where they need a restart."""
    changed: list[str] = []
    needs_restart: list[str] = []
    merged = _merge(old, new, "", changed, needs_restart)
    return Change(merged, tuple(changed), tuple(needs_restart))


def _merge(old: Any, new: Any, path: str, changed: list[str], needs_restart: list[str]) -> Any:
    kept: dict[str, Any] = {}
    for name, field in type(old).model_fields.items():
        before, after = getattr(old, name), getattr(new, name)
        where = f"{path}.{field.alias or name}".lstrip(".")
        if before == after:
            continue
        extra = field.json_schema_extra
        live = isinstance(extra, dict) and extra.get("reload") == "live"
        if isinstance(before, BaseModel) and isinstance(after, BaseModel) and not live:
            kept[name] = _merge(before, after, where, changed, needs_restart)
        elif live:
            kept[name] = after
            changed.append(where)
        else:
            needs_restart.append(where)
    return old.model_copy(update=kept)


def files_of(settings: Settings) -> Iterator[tuple[str, Path]]:
    """The files that the settings name, each with its knob."""
    for path in FILES:
        yield from _named(settings, path.split("."), "")


def _named(value: Any, path: Sequence[str], knob: str) -> Iterator[tuple[str, Path]]:
    if not path:
        if value is not None:
            yield knob.lstrip("."), Path(value)
    elif path[0] == "*":
        for index, element in enumerate(value):
            yield from _named(element, path[1:], f"{knob}.{index}")
    else:
        yield from _named(getattr(value, path[0]), path[1:], f"{knob}.{path[0]}")
