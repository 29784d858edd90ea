"""The configuration of a gateway, read and checked: all faults at once. :mod:`gateway.layers` says where it is from."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from gateway import credentials
from gateway.auth.audiences import shared_audience_faults
from gateway.layers import SERVER_FILES, SERVICE_FILES, Layers
from gateway.settings import ServiceSettings, Settings
from gateway.settings.paths import Key, find_knob, keys_of
from gateway.settings.services import INHERITED

_SAID: Final = {
    "missing": "is required",
    "string_type": "must be a text; in quotes, if YAML takes it for something else",
    "tuple_type": "must be a list, such as [one, two]",
    "dict_type": "must be a mapping, such as {name: value}",
    "model_type": "must be a mapping, such as {name: value}",
}
"""What pydantic would say in the words of Python's types."""
RESTART: Final = ("server.", "telemetry.")
"""What knobs begin with that belong to the process: a reload does not apply them, but for those of ``LIVE``. All others
belong to a service, which a reload replaces whole."""
LIVE: Final = ("server.allowed_hosts", "server.allowed_origins", "telemetry.log.level")


class ConfigError(Exception):
    """The configuration cannot be used; ``faults`` has one line for each thing that is wrong with it."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = tuple(faults)


class ConfigSource:
    """Where settings come from: a file, the environment and ``overrides``. ``files`` are those that the last load read:
    the file itself, and those whose content stands in a knob."""

    def __init__(self, file: Path | None, overrides: Iterable[str] = ()) -> None:
        self.files: frozenset[Path] = frozenset()
        self._file = file
        self._overrides = tuple(overrides)

    def load_settings(self) -> Settings:
        """Raises :class:`ConfigError`; ``files`` are told in any case."""
        read: set[Path] = set()
        try:
            return load_settings(self._file, self._overrides, read=read)
        finally:
            self.files = frozenset(read)


def load_settings(
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
        if not layers.unread_paths:  # which may be what is missing
            services = settings.by_mount.values()
            told = [fault for service in services for fault in credentials.credential_faults(service)]
            faults += _by_origin([*told, *shared_audience_faults(services)], layers.tree)
    except ValidationError as error:
        faults += _faults_of(error, layers)
    if faults:
        raise ConfigError(list(dict.fromkeys(faults)))
    return settings


def _faults_of(error: ValidationError, layers: Layers) -> Iterator[str]:
    """What is wrong with the values that could be read; a section above an unread one may be right but for that."""
    details = error.errors(include_url=False, include_input=False)
    at_top = {(detail["loc"], detail["msg"]) for detail in details}
    for detail in details:
        where = detail["loc"] if detail["type"] != "missing" else _lacking(detail["loc"])
        where = where[:-1] if where[-1:] == ("[key]",) else where  # of a mapping, a name and not its value is wrong
        if _is_default(layers.tree, where, (detail["loc"][2:], detail["msg"]) in at_top):
            where = where[2:]
        if any(all(one == other for one, other in zip(path, where, strict=False)) for path in layers.unread_paths):
            continue
        path = ".".join(str(part) for part in where)
        text = detail["msg"].removeprefix("Value error, ")
        if detail["type"] == "extra_forbidden":
            text = f"unknown key{_suggestion(where)}"
        else:
            text = _SAID.get(detail["type"], text)
        if path:
            yield f"{path}: {text}"
        else:
            yield from _by_origin(text.splitlines(), layers.tree)


def _by_origin(faults: Iterable[str], tree: Mapping[str, Any]) -> Iterator[str]:
    """Faults of services, each by its knob; what several have of the top level is told as that."""
    for fault in faults:
        path = fault.partition(": ")[0].split(".")
        if _is_default(tree, path):
            for section in INHERITED:
                fault = fault.replace(f"services.{path[1]}.{section}", section)
        yield fault


def _is_default(tree: Mapping[str, Any], path: Sequence[Key], alike: bool = False) -> bool:
    """Tell whether what stands at a path of a service is inherited from the top level of ``tree``. Where it is a map,
    merged of both, ``alike`` decides: whether the top level has the same fault."""
    if len(path) < 3 or path[0] != "services" or path[2] not in INHERITED:
        return False
    own: Any = tree["services"][path[1]]
    default: Any = tree
    for key in path[2:]:
        if not isinstance(own, dict) or not isinstance(default, dict) or key not in default:
            return False
        if key not in own:
            return True
        own, default = own[key], default[key]
    return alike and isinstance(own, dict)


def _lacking(location: tuple[Key, ...]) -> tuple[Key, ...]:
    """The knob that has to be given where it is missing, or its whole section."""
    section = find_knob(location)
    required = [name for name, field in keys_of(section).items() if field.is_required()] if section else []
    return (*location, *required[:1])


def _suggestion(location: tuple[int | str, ...]) -> str:
    section = find_knob(location[:-1])
    known = ", ".join(keys_of(section)) if section else ""
    return f"; known here: {known}" if known else ""


def differing(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """Yield the path of each knob in which two settings differ, or of a service that only one has."""
    if isinstance(old, BaseModel) and isinstance(new, BaseModel):
        old, new = _members(old), _members(new)
    if old == new:
        return
    if not (isinstance(old, dict) and isinstance(new, dict)):
        yield path
        return
    for name in dict.fromkeys((*old, *new)):
        yield from differing(old.get(name), new.get(name), f"{path}.{name}".lstrip("."))


def _members(section: BaseModel) -> dict[str, Any]:
    return {field.alias or name: getattr(section, name) for name, field in type(section).model_fields.items()}


def needs_restart(old: Settings, new: Settings) -> tuple[str, ...]:
    """Return the knobs that differ and that a reload does not apply."""
    return tuple(path for path in differing(old, new) if path.startswith(RESTART) and path not in LIVE)


def keep_for_process(old: Settings, new: Settings) -> Settings:
    """Return ``new`` as a reload applies it: what needs a restart keeps its old value.

    Raises :class:`ConfigError` where that does not go together: an address that is not bound yet would let a service
    do without authentication.
    """
    server = {name: getattr(new.server, name) for name in ("allowed_hosts", "allowed_origins")}
    log = old.telemetry.log.model_copy(update={"level": new.telemetry.log.level})
    kept = new.model_copy(
        update={
            "server": old.server.model_copy(update=server),
            "telemetry": old.telemetry.model_copy(update={"log": log}),
        }
    )
    services = kept.by_mount.values()
    faults = [fault for service in services for fault in service.faults()]
    faults += [fault for service in services for fault in credentials.credential_faults(service)]
    if faults := list(dict.fromkeys([*faults, *shared_audience_faults(services)])):
        raise ConfigError([f"{fault}; knobs of server that a restart applies count as they were" for fault in faults])
    return kept


def files_of(settings: Settings) -> Iterator[tuple[str, Path]]:
    """The files that the settings name, each with its knob."""
    for path in SERVER_FILES:
        yield from _named_files(settings, path.split("."), "")
    for service in settings.by_mount.values():
        for knob, file in files_of_service(service):
            yield service.knob(knob), file


def files_of_service(settings: ServiceSettings) -> Iterator[tuple[str, Path]]:
    """Yield the files that the sections of one service name, each with its knob within them."""
    for path in SERVICE_FILES:
        yield from _named_files(settings, path.split("."), "")


def _named_files(value: Any, path: Sequence[str], knob: str) -> Iterator[tuple[str, Path]]:
    if not path:
        if value is not None:
            yield knob.lstrip("."), Path(value)
    elif path[0] == "*":
        for index, element in enumerate(value):
            yield from _named_files(element, path[1:], f"{knob}.{index}")
    else:
        yield from _named_files(getattr(value, path[0]), path[1:], f"{knob}.{path[0]}")
