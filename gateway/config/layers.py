"""Merge YAML file, environment and ``--set`` into one tree of knobs, before it is checked; later layers win.

The head of docs/configuration.md describes their values, and the references in them.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gateway.config.strict_yaml import NotYaml, read_yaml
from gateway.listing.static import find_lines
from gateway.settings import Settings
from gateway.settings.paths import Key, Knob, find_knob, nearest_knob

LEFT: Final = {
    "auth.issuers.*.introspection.endpoint": "write it into metadata (metadata: {introspection_endpoint: https://…})",
    "auth.issuers.*.jwks_uri": "write it into metadata (metadata: {jwks_uri: https://…})",
    "backend.credentials.header": "write it into send (send: {headers: {X-Api-Key: …}})",
    "backend.credentials.value": "write it into send (send: {headers: {Authorization: Bearer …}})",
    "backend.listing.credentials.value": "write it into send (send: {headers: {Authorization: Bearer …}})",
    "backend.params.always": "set backend.version to 2.0-with-params",
    "backend.params.prefix": "write it into backend.credentials (mode: static, send: {params: [token:…]})",
    "backend.transport": "the gateway chooses, by whether backend.proxy or HTTP Digest is set",
    "catalog.max_tools": "it is 5000; narrow catalog.include where the service lists more",
    "catalog.notify_interval": "it is mcp.heartbeat, and 10 s at most",
    "catalog.tools.*.content": "write mcp: [blocks] where it was blocks",
    "catalog.tools.*.input_required": "write mcp: [input_required] where it was true",
    "catalog.tools.*.requires": "write the names of the capabilities into mcp (mcp: [sampling])",
    "limits.client": "limits.invocation bounds each caller, and backend.connections all of them",
    "mcp.server.icons": "write it into about (mcp.server.about.icons)",
    "mcp.server.title": "write it into about (mcp.server.about.title)",
    "mcp.server.website_url": "write it into about (mcp.server.about.website_url)",
    "store.username": "write it into store.url (redis://user@host)",
    "telemetry.log.format": "it is text on a terminal, and JSON elsewhere",
}
"""Knobs that left, each with what to write instead. ``*`` is any key."""


def successor(path: Sequence[Key]) -> str | None:
    """Return the fault of a knob that left, None for any other path. A service has the knobs of the top level."""
    own = path[2:] if tuple(path[:1]) == ("services",) else path
    for knob, now in LEFT.items():
        parts = knob.split(".")
        if len(parts) == len(own) and all(a in ("*", str(b).lower()) for a, b in zip(parts, own, strict=True)):
            return f"left in this release; {now} (in a file: config migrate)"
    return None


_REFERENCE: Final = re.compile(r"\$\$\{|\$\{([^}]*)\}")
# References are hidden while YAML is parsed, since braces and quotes mean something there: "$", "{" and "}" become
# characters of Unicode's last private plane, which no configuration uses.
_IN_YAML: Final = re.compile(r"\$?\$\{[^{}\"'\n]*\}")
_SHIELD: Final = str.maketrans("${}", "\U0010fff0\U0010fff1\U0010fff2")
_UNSHIELD: Final = {ord(shielded): char for char, shielded in zip("${}", "\U0010fff0\U0010fff1\U0010fff2", strict=True)}


class UnresolvedReference(ValueError):
    """Raised where a reference has no value, or a file cannot be read; the message says which and why."""


def read_text(file: Path, name: str, mebibytes: int = 1) -> str:
    """Return a file's text, of at most so many MiB. Raises :class:`UnresolvedReference`, which names it ``name``."""
    try:
        with file.open("rb") as opened:
            content = opened.read(mebibytes * 2**20 + 1)
        text = content.decode()
    except OSError as error:
        raise UnresolvedReference(f"{name}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UnresolvedReference(f"{name}: not UTF-8; save it in that encoding") from None
    except ValueError:
        raise UnresolvedReference("a name of a file must not have a null byte") from None
    if len(content) > mebibytes * 2**20:
        raise UnresolvedReference(f"{name}: larger than {mebibytes} MiB")
    return text


@dataclass(frozen=True)
class ConfigReferences:
    """Resolve references to variables of ``environ`` and to files, whose relative names start from ``folder``. Each
    file that is asked for is added to ``files``, also where it cannot be read."""

    environ: Mapping[str, str]
    folder: Path
    files: set[Path]

    def resolve(self, text: str) -> str:
        """Return ``text`` with its references replaced. Raises :class:`UnresolvedReference`."""
        return _REFERENCE.sub(lambda match: "${" if match[1] is None else self._value(match[1]), text)

    def content(self, name: str) -> str:
        """Return the text of a file, without its last newline. Raises :class:`UnresolvedReference`."""
        self.files.add(self.folder / name)
        return read_text(self.folder / name, name).removesuffix("\n")

    def _value(self, name: str) -> str:
        if name.startswith("file:"):
            return self.content(name.removeprefix("file:"))
        if name not in self.environ:
            raise UnresolvedReference(f"the environment has no variable {name}; set it, or write $${{ for ${{")
        return self.environ[name]


def read_yaml_with_references(text: str, origin: str) -> Any:
    """Return one YAML document with its references as they are written: resolved later, value by value, they cannot
    change its structure. Raises :class:`~gateway.config.strict_yaml.NotYaml`."""
    return unshield(read_yaml(shield(text), origin))


def shield(text: str) -> str:
    """Return YAML without the characters of references that mean something there."""
    return _IN_YAML.sub(lambda match: match[0].translate(_SHIELD), text)


def unshield(value: Any) -> Any:
    """Return a text, or each text of a tree, with the characters of references again."""
    if isinstance(value, dict):
        return {key.translate(_UNSHIELD): unshield(child) for key, child in value.items()}
    if isinstance(value, list):
        return [unshield(child) for child in value]
    return value.translate(_UNSHIELD) if isinstance(value, str) else value


ENVIRONMENT_PREFIX: Final = "GATEWAY__"
_FILE_SUFFIX: Final = "_FILE"
SERVICE_FILES: Final = (
    "backend.tls.ca_file",
    "backend.tls.cert_file",
    "backend.tls.key_file",
    "backend.listing.file",
    "auth.issuers.*.ca_file",
    "auth.keys.file",
    "catalog.pin",
    "catalog.fallback",
)
"""Knobs of a service that name a file."""
SERVER_FILES: Final = ("server.secret_file", "store.ca_file")
"""Knobs of the process that name a file, which is read when it starts, and not again."""
LISTENER_FILES: Final = ("server.tls.cert_file", "server.tls.key_file")
"""Knobs of the process that name a file, which each reload reads."""
_FILES: Final = (*SERVER_FILES, *LISTENER_FILES, *SERVICE_FILES, "telemetry.audit.to")
_NO_FILES: Final = ("", "stdout")
"""Values of these knobs that name no file."""


def mistaken_names(environ: Mapping[str, str]) -> list[str]:
    """Return a warning for each variable that looks like a knob but is not one, such as ``GATEWAY_BACKEND_URL``."""
    knob = re.compile(f"GATEWAY_((?:{'|'.join(Settings.model_fields).upper()})(?:_.*)?)")
    found = [match for match in map(knob.fullmatch, sorted(environ)) if match]
    return [
        f"{m[0]} is not read: names of knobs begin {ENVIRONMENT_PREFIX}{_suggestion([m[1].lower()])}" for m in found
    ]


def environment_name(path: Sequence[Key]) -> str:
    """Return the name of a knob's environment variable: ``catalog.ttl`` has ``GATEWAY__CATALOG__TTL``."""
    return ENVIRONMENT_PREFIX + "__".join(map(str, path)).upper()


def _suggestion(path: Sequence[str]) -> str:
    guess = nearest_knob(path)
    return f"; did you mean {environment_name(guess)}?" if guess else ""


class Layers:
    """Hold the ``tree`` of knobs so far, and the ``files`` that were asked for. ``faults`` has a line for each value
    that cannot be read, ``unread_paths`` its path."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.tree: dict[str, Any] = {}
        self.files: set[Path] = set()
        self.faults: list[str] = []
        self.unread_paths: list[tuple[Key, ...]] = []
        self._origins: dict[tuple[Key, ...], str] = {}
        self._file: Path | None = None
        self._text = ""
        self._environ = environ
        self._outside = ConfigReferences(environ, Path(), self.files)

    def add_file(self, file: Path) -> None:
        self._file = file
        self.files.add(file)
        try:
            self._text = read_text(file, str(file))
            tree = read_yaml_with_references(self._text, str(file))
        except (UnresolvedReference, NotYaml) as error:
            self._add_fault((), str(error))
            return
        if tree is None:
            return
        if not isinstance(tree, dict):
            self._add_fault((), f"{file}: must be a mapping with sections such as backend:")
            return
        tree = self._resolve(tree, (), "", ConfigReferences(self._environ, file.parent, self.files))
        self.tree = with_absolute_files(tree, (), file.parent)

    def add_environment(self) -> None:
        for name, text in sorted(self._environ.items()):
            if name.startswith(ENVIRONMENT_PREFIX):
                self._add_variable(name, text)

    def add_override(self, override: str) -> None:
        dotted, separator, text = override.partition("=")
        if not separator or dotted != dotted.strip():
            self.faults.append(f"--set {override}: must be section.knob=value, without blanks around the knob")
            return
        path = dotted.split(".")
        origin = f"--set {dotted}"
        self._set_value(path, self._read_value(find_knob(path), path, text, origin), origin)

    def _add_variable(self, name: str, text: str) -> None:
        path = name.removeprefix(ENVIRONMENT_PREFIX).lower().split("__")
        knob = find_knob(path)
        if knob is not None:
            self._set_value(knob.path, self._read_value(knob, knob.path, text, name), name)
            return
        plain = name.removesuffix(_FILE_SUFFIX)
        knob = find_knob([*path[:-1], path[-1].removesuffix(_FILE_SUFFIX.lower())]) if plain != name else None
        if knob is None:
            gone = successor(path) or successor([*path[:-1], path[-1].removesuffix(_FILE_SUFFIX.lower())])
            self.faults.append(f"{name}: {gone or f'is not a knob{_suggestion(path)}'}")
        elif not knob.is_text:
            self.faults.append(f"{name}: only a text can be in a file of its own; write ${{file:...}} in {plain}")
        elif plain in self._environ:
            self.faults.append(f"{name}: {plain} is set too; keep one of them")
        elif not text:
            self._add_fault(knob.path, f"{name}: is empty; it must name a file")
        else:
            self._set_value(knob.path, self._content(knob, text, name), name)

    def _content(self, knob: Knob, file: str, origin: str) -> str | None:
        try:
            return self._outside.content(self._outside.resolve(file)) or _empty_value(knob)
        except UnresolvedReference as error:
            return self._add_fault(knob.path, f"{origin}: {error}")

    def _read_value(self, knob: Knob | None, path: Sequence[Key], text: str, origin: str) -> Any:
        """Return the value of a knob from the environment or the command line."""
        if knob is not None and knob.is_text:
            if not knob.is_secret and _is_quoted(text):
                return self._add_fault(path, f"{origin}: text is taken as it is here, quotes and all: leave them out")
            return self._resolve(text, path, origin, self._outside) or _empty_value(knob)
        try:
            tree = read_yaml_with_references(text, origin)
        except NotYaml:
            # YAML's own message may quote the value, which may be a secret.
            return self._add_fault(path, f"{origin}: cannot be read as YAML; quote the value as YAML does")
        return self._resolve(tree, path, origin, self._outside)

    def _resolve(self, value: Any, path: Sequence[Key], where: str, references: ConfigReferences) -> Any:
        """Return ``value`` with its references resolved; ``where`` names it in faults."""

        def below(key: Key, child: Any, place: str) -> Any:
            return self._resolve(child, (*path, key), place, references)

        if isinstance(value, dict):
            return {key: below(key, child, f"{where}.{key}".lstrip(".")) for key, child in value.items()}
        if isinstance(value, list):
            return [below(index, child, f"{where}[{index}]") for index, child in enumerate(value)]
        if not isinstance(value, str) or "${" not in value:
            return value
        try:
            text = references.resolve(value)
        except UnresolvedReference as error:
            return self._add_fault(path, f"{where}: {error}")
        knob = find_knob(path)
        if knob is None or knob.is_json:
            return text
        if knob.is_text:
            return text or _empty_value(knob)
        try:
            return read_yaml(text, where)
        except NotYaml:
            return self._add_fault(path, f"{where}: the values of its references cannot be read as YAML")

    def _add_fault(self, path: Sequence[Key], fault: str) -> str:
        """Report a value that cannot be read. Return the text that takes its place in the tree."""
        self.faults.append(fault)
        self.unread_paths.append(tuple(path))
        return ""

    def _set_value(self, path: Sequence[Key], value: Any, origin: str) -> None:
        node: Any = self.tree
        for key in path[:-1]:
            if node.get(key) is None:
                node[key] = {}  # None: the file has the section's name alone
            node = node[key]
            if not isinstance(node, dict):
                self.faults.append(f"{origin}: {key} is not a section")
                return
        node[path[-1]] = value
        self._origins[tuple(path)] = origin

    def origins_of(self, paths: Sequence[tuple[Key, ...]]) -> list[str]:
        """Return where each value comes from: a variable, ``--set``, or file and line."""
        lines = find_lines(self._text.encode(), paths)  # a pipe gives its text once
        return [self._origin_of(path) or f"{self._file}:{line}" for path, line in zip(paths, lines, strict=True)]

    def _origin_of(self, path: tuple[Key, ...]) -> str | None:
        return next((self._origins[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self._origins), None)


def _empty_value(knob: Knob) -> str | None:
    return None if knob.is_optional else ""


def _is_quoted(text: str) -> bool:
    if text.strip()[:1] not in ("'", '"'):
        return False
    try:
        return isinstance(read_yaml(text, ""), str)
    except NotYaml:
        return False


def with_absolute_files(value: Any, path: Sequence[Key], folder: Path) -> Any:
    """Return the value of the knob or section at a path, with the relative names of files resolved against a folder."""
    if isinstance(value, dict):
        return {key: with_absolute_files(child, (*path, key), folder) for key, child in value.items()}
    if isinstance(value, list):
        return [with_absolute_files(child, (*path, "*"), folder) for child in value]
    own = path[2:] if path[:1] in (("services",), ("groups",)) else path
    names_file = isinstance(value, str) and value not in _NO_FILES and ".".join(map(str, own)) in _FILES
    return str(folder / value) if names_file else value
