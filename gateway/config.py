"""From YAML, environment and command line to :class:`~gateway.settings.Settings`: all faults at once.

Later layers win: the file, then ``GATEWAY__SECTION__KNOB`` from the environment, then ``--set section.knob=value``;
the latter two read their values as YAML. In the file, ``${NAME}`` is an environment variable, ``${file:/path}`` the
content of a file without its last newline, ``$${`` a literal ``${``. Relative file names in the file start from its
own folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import BaseModel, ValidationError

from gateway.settings import Settings

MAX_FILE_BYTES: Final = 1024**2
ENVIRONMENT_PREFIX: Final = "GATEWAY__"
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
_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)\}")


class ConfigError(Exception):
    """The configuration cannot be used; ``faults`` has one line for each thing that is wrong with it."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = tuple(faults)


class _Loader(yaml.SafeLoader):
    """YAML's safe core, with YAML 1.2's booleans (``off`` is a word), no duplicate keys and no aliases.

    Aliases are refused because a few lines of them expand to gigabytes.
    """

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.constructor.ConstructorError(None, None, "aliases (*name) are not supported", mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key!r} is not a string: quote it", key_node.start_mark
                )
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is there twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag not in ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp")
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)


def _refuse_tag(loader: _Loader, node: yaml.Node) -> Any:
    # Without the tag itself: it may be a password that begins with "!".
    raise yaml.constructor.ConstructorError(None, None, "tags (!name) are not supported", node.start_mark)


_Loader.add_constructor(None, _refuse_tag)


def read_yaml(text: str, origin: str) -> Any:
    """One YAML document. Raises :class:`ConfigError` with file, line and column."""
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506, derived from SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{origin}:{mark.line + 1}:{mark.column + 1}" if mark else origin
        raise ConfigError([f"{where}: {error.problem or error.context}"]) from None
    except RecursionError:
        raise ConfigError([f"{origin}: nested too deeply"]) from None
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError([f"{origin}: {error}"]) from None


class Source:
    """Where settings come from: a file, the environment and ``overrides``. ``files`` are those that the last load read:
    the file itself, and those whose content stands in it."""

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
    read = set() if read is None else read
    environ = os.environ if environ is None else environ
    faults: list[str] = []
    tree: dict[str, Any] = {}
    if file is not None:
        read.add(file)
        tree = _read_file(file, _References(environ, file.parent, faults, read))
    for name, text in sorted(environ.items()):
        if name.startswith(ENVIRONMENT_PREFIX):
            path = name.removeprefix(ENVIRONMENT_PREFIX).lower().split("__")
            _put(tree, path, text, name, faults)
    for override in overrides:
        knob, separator, text = override.partition("=")
        if separator:
            _put(tree, knob.split("."), text, f"--set {knob}", faults)
        else:
            faults.append(f"--set {override}: must be section.knob=value")
    try:
        settings = Settings.model_validate(tree)
    except ValidationError as error:
        unread = {fault.partition(":")[0] for fault in faults}
        faults += [fault for fault in _faults_of(error) if fault.partition(":")[0] not in unread]
    if faults:
        raise ConfigError(faults)
    return settings


def _read_file(file: Path, references: _References) -> dict[str, Any]:
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise ConfigError([f"{file}: larger than 1 MiB"])
        tree = read_yaml(file.read_text(encoding="utf-8"), str(file))
    except OSError as error:
        raise ConfigError([f"{file}: {error.strerror or error}"]) from None
    except UnicodeDecodeError:
        raise ConfigError([f"{file}: not UTF-8"]) from None
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise ConfigError([f"{file}: must be a mapping with sections such as backend:"])
    resolved: dict[str, Any] = _interpolate(tree, references, "")
    for path in _FILES:
        _anchor(resolved, path.split("."), file.parent)
    return resolved


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


@dataclass(frozen=True)
class _References:
    """What ``${…}`` may stand for; ``faults`` collects what cannot be had, ``read`` the files that were read."""

    environ: Mapping[str, str]
    folder: Path
    faults: list[str]
    read: set[Path]

    def value(self, name: str, path: str) -> str:
        try:
            if name.startswith("file:"):
                file = self.folder / name.removeprefix("file:")
                self.read.add(file)
                return file.read_text(encoding="utf-8").removesuffix("\n")
            return self.environ[name]
        except KeyError:
            self.faults.append(f"{path}: the environment has no variable {name}")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not UTF-8"
            self.faults.append(f"{path}: {name.removeprefix('file:')}: {reason}")
        return ""


def _interpolate(value: Any, references: _References, path: str) -> Any:
    if isinstance(value, dict):
        return {key: _interpolate(child, references, f"{path}.{key}".lstrip(".")) for key, child in value.items()}
    if isinstance(value, list):
        return [_interpolate(child, references, f"{path}[{index}]") for index, child in enumerate(value)]
    if not isinstance(value, str) or "${" not in value:
        return value
    return _REFERENCE.sub(lambda match: "${" if match[1] is None else references.value(match[1], path), value)


def _put(tree: dict[str, Any], path: Sequence[str], text: str, origin: str, faults: list[str]) -> None:
    try:
        value = read_yaml(text, origin)
    except ConfigError:
        # What YAML says of a value may quote it, and it may be a secret.
        faults.append(f"{origin}: cannot be read as YAML; quote the value as YAML does")
        return
    node = tree
    for key in path[:-1]:
        child = node.setdefault(key, {})
        if not isinstance(child, dict):
            faults.append(f"{origin}: {key} is not a section")
            return
        node = child
    node[path[-1]] = value


def _faults_of(error: ValidationError) -> list[str]:
    faults = []
    for detail in error.errors(include_url=False, include_input=False):
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
