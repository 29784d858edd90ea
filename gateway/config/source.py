"""Load and compare configurations; all faults are reported at once. :mod:`gateway.config.layers` reads the values."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from gateway import credentials, jsonrpc
from gateway.auth.claims import shared_audience_faults
from gateway.config.layers import LISTENER_FILES, SERVER_FILES, SERVICE_FILES, Layers, successor
from gateway.credentials.caller_headers import identity_faults
from gateway.settings import ResourceSettings, ServiceSettings, Settings
from gateway.settings.paths import Key, as_written, find_knob, keys_of, knobs
from gateway.settings.services import INHERITED
from gateway.text import did_you_mean, masked_url

_MESSAGES: Final = {
    "missing": "is required",
    "string_type": "must be a text; in quotes, if YAML takes it for something else",
    "tuple_type": "must be a list, such as [one, two]",
    "dict": "must be a mapping, such as {{name: value}}, with a space after each colon",
    "model": "must be a mapping, such as {{name: value}}, with a space after each colon",
    "bool": "must be true or false",
    "int": "must be a whole number",
    "float": "must be a number",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "string_too_short": "must have at least {min_length} character",
    "string_pattern_mismatch": "must match {pattern}",
}
"""Messages for pydantic's types of faults, or for their first words."""
_OTHERS: Final = {"listen": "server.port", "server.listen": "server.port", "server.bind": "server.host",
                  "upstream": "backend.url", "backend.host": "backend.url", "backend.port": "backend.url",
                  "backend.auth": "backend.credentials", "auth.audience": "auth.issuers.*.audiences",
                  "store.host": "store.url", "store.port": "store.url", "auth.enabled": "auth.mode",
                  "auth.jwks_uri": "auth.issuers.*.metadata",
                  "backend.headers": "backend.credentials.send", "log_level": "telemetry.log.level"}  # fmt: skip
"""Our knobs by the names that they have in other programs."""
RESTART: Final = ("server.", "store.", "telemetry.audit.", "telemetry.traces")
"""Prefixes of the knobs that a reload does not apply, except for those in ``LIVE``."""
LIVE: Final = ("server.allowed_hosts", "server.allowed_origins")


_MASK: Final = "***"


class ConfigError(Exception):
    """Raised where the configuration cannot be used; ``faults`` has one line for each thing that is wrong with it."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = tuple(faults)


@dataclass(eq=False, repr=False)  # --set may have secrets
class ConfigSource:
    """Hold where settings come from. ``layers`` are those of the last load."""

    _file: Path | None = None
    _overrides: Sequence[str] = ()
    _defaults: Mapping[str, Any] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    layers: Layers = field(default_factory=lambda: Layers({}))

    @property
    def file(self) -> frozenset[Path]:
        """Return the configuration file itself, if there is one."""
        return frozenset(() if self._file is None else (self._file,))

    @property
    def files(self) -> frozenset[Path]:
        """Return the files that the last load read, or tried to."""
        return frozenset(self.layers.files)

    def load_settings(self) -> Settings:
        """Return the settings of all layers over the defaults, and set ``layers``. Raises :class:`ConfigError`."""
        layers = self.layers = Layers(self.environ)
        if self._file is not None:
            layers.add_file(self._file)
        layers.add_environment()
        for override in self._overrides:
            layers.add_override(override)
        layers.tree = {**self._defaults, **layers.tree}
        faults = layers.faults
        try:
            settings = Settings.model_validate(layers.tree, context=credentials.section_faults)
            if not layers.unread_paths:  # else a value that could not be read would be reported as missing
                faults += _by_origin(_faults_of_services(settings), layers.tree)
        except ValidationError as error:
            faults += _faults_of(error, layers)
        if faults:
            raise ConfigError(list(dict.fromkeys(faults)))
        return settings


def load_settings(
    file: Path | None = None, overrides: Sequence[str] = (), environ: Mapping[str, str] = os.environ
) -> Settings:
    """Return the settings, as :meth:`ConfigSource.load_settings` does."""
    return ConfigSource(file, overrides, environ=environ).load_settings()


def _faults_of_services(settings: Settings) -> Iterator[str]:
    """Yield what is wrong with the credentials of services and groups, and with audiences that they share."""
    groups = settings.groups_by_mount.values()
    for service in settings.by_mount.values():
        yield from credentials.credential_faults(service)
        of_groups = [group.auth for group in groups if service.name in (member.name for member in group.members)]
        yield from identity_faults(service, of_groups)
    for group in groups:
        yield from credentials.group_faults(group)
    yield from shared_audience_faults(settings.resources)


def _faults_of(error: ValidationError, layers: Layers) -> Iterator[str]:
    """Yield the faults of the values that could be read, but none of a section that holds one which could not."""
    details = error.errors(include_url=False)
    top_level_faults = {(detail["loc"], detail["msg"]) for detail in details}
    for detail in details:
        where = detail["loc"] if detail["type"] != "missing" else _missing_knob(detail["loc"])
        where = where[:-1] if where[-1:] == ("[key]",) else where  # the name is wrong, not the value
        if _is_default(layers.tree, where, (detail["loc"][2:], detail["msg"]) in top_level_faults):
            where = where[2:]
        if any(all(one == other for one, other in zip(path, where, strict=False)) for path in layers.unread_paths):
            continue
        path = ".".join(str(part) for part in where)
        text = _message(detail, where)
        yield from [f"{path}: {text}"] if path else _by_origin(text.splitlines(), layers.tree)


def _by_origin(faults: Iterable[str], tree: Mapping[str, Any]) -> Iterator[str]:
    """Yield faults of services, which begin with a knob. One that comes from the top level names the top level's."""
    for fault in faults:
        path = fault.partition(": ")[0].split(".")
        if _is_default(tree, path):
            for section in INHERITED:
                fault = fault.replace(f"{path[0]}.{path[1]}.{section}", section)
        yield fault


def _is_default(tree: Mapping[str, Any], path: Sequence[Key], same_fault: bool = False) -> bool:
    """Return whether the value at a path of a service is inherited from the top level of ``tree``; for a map, which is
    merged from both, whether the top level has the ``same_fault``."""
    if len(path) < 3 or path[0] not in ("services", "groups") or path[2] not in INHERITED:
        return False
    own: Any = tree[path[0]][path[1]]
    default: Any = tree
    for key in path[2:]:
        if not isinstance(own, dict) or not isinstance(default, dict) or key not in default:
            return False
        if key not in own:
            return True
        own, default = own[key], default[key]
    return same_fault and isinstance(own, dict)


def _missing_knob(location: tuple[Key, ...]) -> tuple[Key, ...]:
    """Return the path of a missing knob; for a missing section, that of its first required knob."""
    section = find_knob(location)
    required = [name for name, field in keys_of(section).items() if field.is_required()] if section else []
    return (*location, *required[:1])


def _message(detail: Mapping[str, Any], where: tuple[Key, ...]) -> str:
    """Return the words for a fault of pydantic's at the knob ``where``."""
    if detail["type"] == "extra_forbidden":
        return successor(where) or f"unknown key{_suggestion(where)}"
    if detail["type"] == "literal_error":
        words = re.findall("'(.*?)'", detail["ctx"]["expected"])
        return f"must be one of {', '.join(words)}{did_you_mean(detail['input'], words)}"
    if detail["type"] in ("tuple_type", "model_type") and "issuers" in where[-2:]:
        return "has the form [{issuer: https://login.example.com}]"
    message = _MESSAGES.get(detail["type"]) or _MESSAGES.get(detail["type"].partition("_")[0])
    section, values = find_knob(where[:-1]), detail.get("ctx", {})
    if section and where and (field := keys_of(section).get(str(where[-1]))):
        values = {name: as_written(value, field) for name, value in values.items()}
    unit = "; a number without a unit is seconds, or bytes" if isinstance(values.get("le"), str) else ""
    text: str = message.format_map(values) + unit if message else detail["msg"]
    return text.removeprefix("Value error, ")


def _suggestion(location: tuple[int | str, ...]) -> str:
    """Return the known keys of the section, and the one that is probably meant: of this name, or a similar one here."""
    section, name = find_knob(location[:-1]), location[-1]
    known = list(keys_of(section)) if section else []
    paths = [path for path, _ in knobs() if path.rpartition(".")[2] == name]
    near = [path for path in paths if path.startswith(f"{location[0]}.")]
    elsewhere = near or [path for path in paths if "*" not in path]
    if other := _OTHERS.get(".".join(map(str, location[-2:]))):
        elsewhere = [other]
    elif len(location) > 1 and name in Settings.model_fields:
        return f"; known here: {', '.join(known)}; {name} stands at the top level"
    meant = f"; did you mean {elsewhere[0]}?" if len(elsewhere) == 1 else did_you_mean(name, known)
    return (f"; known here: {', '.join(known)}" if known else "") + meant


def differing(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """Yield the path of each knob that differs between two settings, and of each service that only one of them has."""
    if isinstance(old, BaseModel) and isinstance(new, BaseModel):
        old, new = _knob_values(old), _knob_values(new)
    if old == new:
        return
    if not (isinstance(old, dict) and isinstance(new, dict)):
        yield path
        return
    for name in dict.fromkeys((*old, *new)):
        yield from differing(old.get(name), new.get(name), f"{path}.{name}".lstrip("."))


def _knob_values(section: BaseModel) -> dict[str, Any]:
    return {field.alias or name: getattr(section, name) for name, field in type(section).model_fields.items()}


def needs_restart(old: Settings, new: Settings) -> tuple[str, ...]:
    """Return the knobs that differ and that a reload does not apply."""
    return tuple(path for path in differing(old, new) if path.startswith(RESTART) and path not in LIVE)


def keep_for_process(old: Settings, new: Settings) -> Settings:
    """Return ``new`` as a reload applies it: knobs that need a restart keep their values. Raises :class:`ConfigError`
    if that is invalid: authentication may be off in ``new`` alone, and the port bound to the old address."""
    kept = new
    for path in needs_restart(old, new):
        kept = _with_value_of(old, kept, path.split("."))
    faults = [fault for one in kept.resources for fault in one.faults()]
    if faults := list(dict.fromkeys([*faults, *_faults_of_services(kept)])):
        why = "a reload keeps the old value of server knobs that need a restart"
        raise ConfigError([f"{fault}; {why}" for fault in faults])
    return kept


def _with_value_of(source: BaseModel, section: BaseModel, path: Sequence[str]) -> Any:
    """Return ``section`` with the knob at ``path`` as it is in ``source``."""
    name, *rest = path
    value = getattr(source, name)
    return section.model_copy(update={name: _with_value_of(value, getattr(section, name), rest) if rest else value})


def files_of(settings: Settings) -> Iterator[tuple[str, Path]]:
    """Yield the files that the settings name, as pairs of knob and file."""
    for path in (*SERVER_FILES, *LISTENER_FILES):
        yield from _named_files(settings, path.split("."), "")
    for one in settings.resources:
        for knob, file in files_of_resource(one):
            yield one.knob(knob), file


def files_of_resource(settings: ResourceSettings) -> Iterator[tuple[str, Path]]:
    """Yield the files that a service or a group itself names, as pairs of knob, which is relative to it, and file."""
    for path in SERVICE_FILES:
        if isinstance(settings, ServiceSettings) or path.startswith("auth."):
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


def origins_of_values(layers: Layers) -> list[tuple[str, str, str]]:
    """Return each knob that is set, its value with secrets masked, and where it comes from."""
    found = dict(set_values(layers.tree))
    origins = layers.origins_of([*found])
    return [
        (".".join(map(str, path)), shown(path, value), where)
        for (path, value), where in zip(found.items(), origins, strict=True)
    ]


def set_values(tree: Any, path: tuple[Key, ...] = ()) -> Iterator[tuple[tuple[Key, ...], Any]]:
    """Yield path and value of each knob that is set. What is JSON or secret is one value."""
    knob = find_knob(path)
    has_maps = isinstance(tree, list) and tree and all(isinstance(item, dict) for item in tree)
    members = tree.items() if isinstance(tree, dict) else enumerate(tree) if has_maps else ()
    if path and (not members or (knob is not None and (knob.is_secret or knob.is_json))):
        yield path, tree
        return
    for key, value in members:
        yield from set_values(value, (*path, key))


def shown(path: tuple[Key, ...], value: Any) -> str:
    knobs = (find_knob(path[:length]) for length in range(1, len(path) + 1))
    return _MASK if any(knob is not None and knob.is_secret for knob in knobs) else _text(value)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return masked_url(value) if "://" in value else value
    return jsonrpc.encode(value).decode()
