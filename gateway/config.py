"""From YAML, environment and command line to :class:`~gateway.settings.Settings`: all faults at once.

Later layers win: the file, then ``GATEWAY__SECTION__KNOB`` from the environment, then ``--set section.knob=value``.
In the latter two, a knob that is text is taken as it is; knobs of every other type are YAML, as in the file.
``GATEWAY__SECTION__KNOB_FILE`` names a file with a text.

In each layer ``${NAME}`` is an environment variable, ``${file:/path}`` the content of a file without its last newline,
``$${`` a literal ``${``; what they stand for is not resolved again. Relative file names in the file start from its own
folder, others from the working directory.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from gateway.references import References, Unresolved, read_text, read_yaml_with_references
from gateway.settings import Settings
from gateway.settings.paths import Key, Knob, find, nearest
from gateway.strict_yaml import NotYaml, read_yaml

ENVIRONMENT_PREFIX: Final = "GATEWAY__"
_FILE_SUFFIX: Final = "_FILE"
_FILES: Final = (
    "server.secret_file",
    "backend.tls.ca_file",
    "backend.tls.cert_file",
    "backend.tls.key_file",
    "backend.listing.file",
    "auth.issuers.*.ca_file",
    "catalog.pin",
    "catalog.fallback",
)


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
    """The settings from all layers; ``read`` gets the files that were read. Raises :class:`ConfigError`."""
    layers = _Layers(os.environ if environ is None else environ, set() if read is None else read)
    if file is not None:
        layers.add_file(file)
    layers.add_environment()
    for override in overrides:
        layers.add_override(override)
    faults = layers.faults
    try:
        settings = Settings.model_validate(layers.tree)
    except ValidationError as error:
        faults += _faults_of(error, layers.unread)
    if faults:
        raise ConfigError(faults)
    return settings


def mistaken_names(environ: Mapping[str, str]) -> list[str]:
    """A line for each variable that looks like a knob and is read by nobody: ``GATEWAY_BACKEND_URL``."""
    knob = re.compile(f"GATEWAY_((?:{'|'.join(Settings.model_fields).upper()})(?:_.*)?)")
    found = [match for match in map(knob.fullmatch, sorted(environ)) if match]
    return [f"{m[0]} is not read: names of knobs begin {ENVIRONMENT_PREFIX}{_meant([m[1].lower()])}" for m in found]


def environment_name(path: Sequence[Key]) -> str:
    """``catalog.ttl`` is ``GATEWAY__CATALOG__TTL``."""
    return ENVIRONMENT_PREFIX + "__".join(map(str, path)).upper()


def _meant(path: Sequence[str]) -> str:
    guess = nearest(path)
    return f"; did you mean {environment_name(guess)}?" if guess else ""


class _Layers:
    """The knobs that the layers have set so far, as a ``tree``.

    ``faults`` has a line for each thing that cannot be read, and ``unread`` the paths that it was meant for.
    """

    def __init__(self, environ: Mapping[str, str], read: set[Path]) -> None:
        self.tree: dict[str, Any] = {}
        self.faults: list[str] = []
        self.unread: list[tuple[Key, ...]] = []
        self._environ = environ
        self._read_files = read
        self._outside = References(environ, Path(), read)

    def add_file(self, file: Path) -> None:
        """Raises :class:`ConfigError` where nothing of the file can be used."""
        self._read_files.add(file)
        try:
            tree = read_yaml_with_references(read_text(file, str(file)), str(file))
        except (Unresolved, NotYaml) as error:
            raise ConfigError([str(error)]) from None
        if tree is None:
            return
        if not isinstance(tree, dict):
            raise ConfigError([f"{file}: must be a mapping with sections such as backend:"])
        self.tree = self._resolved(tree, (), "", References(self._environ, file.parent, self._read_files))
        for path in _FILES:
            _anchor(self.tree, path.split("."), file.parent)

    def add_environment(self) -> None:
        for name, text in sorted(self._environ.items()):
            if name.startswith(ENVIRONMENT_PREFIX):
                self._add_variable(name, text)

    def add_override(self, override: str) -> None:
        dotted, separator, text = override.partition("=")
        if not separator:
            self.faults.append(f"--set {override}: must be section.knob=value")
            return
        path = dotted.split(".")
        origin = f"--set {dotted}"
        self._put(path, self._read(find(path), path, text, origin), origin)

    def _add_variable(self, name: str, text: str) -> None:
        path = name.removeprefix(ENVIRONMENT_PREFIX).lower().split("__")
        knob = find(path)
        if knob is not None:
            self._put(knob.path, self._read(knob, knob.path, text, name), name)
            return
        plain = name.removesuffix(_FILE_SUFFIX)
        knob = find([*path[:-1], path[-1].removesuffix(_FILE_SUFFIX.lower())]) if plain != name else None
        if knob is None:
            self.faults.append(f"{name}: is no knob{_meant(path)}")
        elif not knob.is_text:
            self.faults.append(f"{name}: only a text can be in a file of its own; write ${{file:...}} in {plain}")
        elif plain in self._environ:
            self.faults.append(f"{name}: {plain} is set too; keep one of them")
        else:
            self._put(knob.path, self._content(knob, text, name), name)

    def _content(self, knob: Knob, file: str, origin: str) -> str | None:
        try:
            return self._outside.content(self._outside.resolve(file)) or _nothing(knob)
        except Unresolved as error:
            return self._failed(knob.path, f"{origin}: {error}")

    def _read(self, knob: Knob | None, path: Sequence[Key], text: str, origin: str) -> Any:
        """The value of a knob that is not in the file."""
        if knob is not None and knob.is_text:
            if not knob.is_secret and _is_quoted(text):
                return self._failed(path, f"{origin}: text is taken as it is here, quotes and all: leave them out")
            return self._resolved(text, path, origin, self._outside) or _nothing(knob)
        try:
            tree = read_yaml_with_references(text, origin)
        except NotYaml:
            # What YAML says of a value may quote it, and it may be a secret.
            return self._failed(path, f"{origin}: cannot be read as YAML; quote the value as YAML does")
        return self._resolved(tree, path, origin, self._outside)

    def _resolved(self, value: Any, path: Sequence[Key], where: str, references: References) -> Any:
        """``value`` without references; ``where`` is what faults call it."""
        if isinstance(value, dict):
            return {
                key: self._resolved(child, (*path, key), f"{where}.{key}".lstrip("."), references)
                for key, child in value.items()
            }
        if isinstance(value, list):
            return [
                self._resolved(child, (*path, index), f"{where}[{index}]", references)
                for index, child in enumerate(value)
            ]
        if not isinstance(value, str) or "${" not in value:
            return value
        try:
            text = references.resolve(value)
        except Unresolved as error:
            return self._failed(path, f"{where}: {error}")
        knob = find(path)
        if knob is None or knob.is_json:
            return text
        if knob.is_text:
            return text or _nothing(knob)
        try:
            return read_yaml(text, where)
        except NotYaml:
            return self._failed(path, f"{where}: what its references stand for cannot be read as YAML")

    def _failed(self, path: Sequence[Key], fault: str) -> str:
        self.faults.append(fault)
        self.unread.append(tuple(path))
        return ""

    def _put(self, path: Sequence[Key], value: Any, origin: str) -> None:
        node: Any = self.tree
        for key in path[:-1]:
            if node.get(key) is None:
                node[key] = {}  # also where the file has the section's name alone
            node = node[key]
            if not isinstance(node, dict):
                self.faults.append(f"{origin}: {key} is not a section")
                return
        node[path[-1]] = value


def _nothing(knob: Knob) -> str | None:
    """What an empty text means."""
    return None if knob.is_optional else ""


def _is_quoted(text: str) -> bool:
    if text.strip()[:1] not in ("'", '"'):
        return False
    try:
        return isinstance(read_yaml(text, ""), str)
    except NotYaml:
        return False


def files_of(settings: Settings) -> Iterator[tuple[str, Path]]:
    """The files that the settings name, each with its knob."""
    for path in _FILES:
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


def _anchor(tree: Any, path: Sequence[str], folder: Path) -> None:
    """Let a relative file name of a configuration file start from that file's folder."""
    key, *rest = path
    if key == "*":
        for element in tree if isinstance(tree, list) else ():
            _anchor(element, rest, folder)
    elif isinstance(tree, dict) and rest:
        _anchor(tree.get(key), rest, folder)
    elif isinstance(tree, dict) and isinstance(tree.get(key), str):
        tree[key] = str(folder / tree[key])


def _faults_of(error: ValidationError, unread: Iterable[tuple[Key, ...]]) -> list[str]:
    """What is wrong with the values that could be read; a section above an unread one may be right but for that."""
    faults = []
    for detail in error.errors(include_url=False, include_input=False):
        if any(all(one == other for one, other in zip(path, detail["loc"], strict=False)) for path in unread):
            continue
        path = ".".join(str(part) for part in detail["loc"])
        text = detail["msg"].removeprefix("Value error, ")
        if detail["type"] == "extra_forbidden":
            text = f"unknown key{_suggestion(detail['loc'])}"
        elif detail["type"] == "missing":
            text = "is required"
        faults.append(f"{path}: {text}" if path else text)
    return faults


def _suggestion(location: tuple[int | str, ...]) -> str:
    model: Any = Settings
    for part in location[:-1]:
        field = model.model_fields.get(str(part)) if isinstance(model, type) and issubclass(model, BaseModel) else None
        if field is None:
            return ""
        model = field.annotation
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        return ""
    return f"; known here: {', '.join(field.alias or name for name, field in model.model_fields.items())}"


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
