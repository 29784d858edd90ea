"""Read and change the file of API keys, a YAML list. It has hashes alone, and who may see them may not call."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from gateway.catalog.pins import replace_file
from gateway.config.layers import UnresolvedReference, read_text
from gateway.config.strict_yaml import NotYaml, read_yaml
from gateway.listing.static import find_lines
from gateway.settings.auth import ApiKey

MOST_OF_NAME: Final = 2
"""Keys that a name may have at a time: the old one, and the one that replaces it."""
_MAX_MIB: Final = 16
_LOOKED_AT: Final = 2**16
_KEYS: Final = TypeAdapter(tuple[ApiKey, ...])
_COMMENT: Final = re.compile(r"(?:^|(?<=\s))#.*", re.MULTILINE)
_DIGEST: Final = re.compile("(?=([0-9a-f]{64}))")
_HEAD: Final = "# API keys: the SHA-256 of each. `keys add` and `keys revoke` change this file.\n"


class KeyFileError(Exception):
    """Raised where a key file cannot be used. The text names the file, the entry and the remedy."""


class KeyFileGone(KeyFileError):
    """Raised where a key file is not there, cannot be read, or is empty, as one is that is about to be written."""


def new_entry(name: str, sha256: str, scopes: Iterable[str], expires: datetime | None) -> ApiKey:
    """Return an entry of these values. Raises :class:`KeyFileError`, which names the value that is wrong."""
    try:
        return ApiKey(name=name, sha256=sha256, scopes=tuple(scopes), expires=expires)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise KeyFileError(f"{first['loc'][0]}: {first['msg']}") from None


def read_keys(file: Path) -> tuple[ApiKey, ...]:
    """Return the entries of a key file. Raises :class:`KeyFileError`."""
    text = _text(file)
    if not text.strip():
        raise KeyFileGone(f"{file}: is empty: put the keys back, or write [] for none")
    return _parsed(file, text)


def standing_keys(file: Path) -> dict[str, list[ApiKey]]:
    """Return what a key file, which may be faulty, leaves of the keys of before: each SHA-256 that stands in it, with
    its sound entries. A key in a comment does not stand there. Raises :class:`KeyFileGone`."""
    standing: dict[str, list[ApiKey]] = {}
    try:
        entries: Iterable[ApiKey] = read_keys(file)
    except KeyFileGone:
        raise
    except KeyFileError:
        try:
            text = _COMMENT.sub("", file.read_bytes().decode(errors="replace"))
        except OSError as error:
            raise KeyFileGone(f"{file}: {error.strerror}") from None
        standing, entries = {digest: [] for digest in _DIGEST.findall(text)}, _sound_entries(text)
    for entry in entries:
        standing.setdefault(entry.sha256, []).append(entry)
    return standing


def is_gone(file: Path) -> bool:
    """Return whether :func:`read_keys` would raise :class:`KeyFileGone`, without reading much of the file."""
    try:
        if not file.is_file():  # to open a pipe would wait
            return True
        with file.open("rb") as opened:
            return not opened.read(_LOOKED_AT).strip()
    except OSError:
        return True


def add_key(file: Path, key: ApiKey) -> None:
    """Add an entry; what the file has stays, to the character. Raises :class:`KeyFileError` and :class:`OSError`."""
    before = _text(file) if file.exists() else None
    text = _HEAD if before is None else before
    if not _parsed(file, text):  # [] is in the way of the first entry
        text = "".join(line for line in text.splitlines(keepends=True) if line.startswith("#"))
    changed = (text if text.endswith("\n") or not text else f"{text}\n") + entry_text(key)
    _parsed(file, changed)
    _replace(file, before, changed)


def revoke_keys(file: Path, name: str, digest: str = "") -> list[ApiKey]:
    """Remove the entries of a name, or that whose SHA-256 begins with ``digest``. Return them. All else stays, to the
    character. Raises :class:`KeyFileError` and :class:`OSError`."""
    text = _text(file)
    keys = _parsed(file, text)
    gone = [number for number, key in enumerate(keys) if key.name == name and key.sha256.startswith(digest)]
    if not gone:
        return []
    lines = text.splitlines(keepends=True)
    starts = [line - 1 for line in find_lines(text.encode(), [(number,) for number in range(len(keys))])]
    ends = [*starts[1:], len(lines)]
    for number in reversed(gone):
        del lines[starts[number] : ends[number]]
    changed = "".join(lines) + ("[]\n" if len(gone) == len(keys) else "")
    try:
        is_safe = _parsed(file, changed) == tuple(key for number, key in enumerate(keys) if number not in gone)
    except KeyFileError:
        is_safe = False
    if not is_safe:
        raise KeyFileError(f"{file}: it is not written as `keys add` writes it: take the entry out by hand")
    _replace(file, text, changed)
    return [keys[number] for number in gone]


def entry_text(key: ApiKey) -> str:
    """Return an entry as the file has it."""
    lines = [f"- name: '{key.name}'", f"  sha256: '{key.sha256}'"]
    if key.scopes:
        lines.append("  scopes: [" + ", ".join("'" + scope.replace("'", "''") + "'" for scope in key.scopes) + "]")
    if key.expires:
        lines.append(f"  expires: '{key.expires.isoformat()}'")
    return "\n".join(lines) + "\n"


def _replace(file: Path, before: str | None, changed: str) -> None:
    lock = file.with_name(f".{file.name}.lock")
    try:
        lock.touch(exist_ok=False)
    except FileExistsError:
        raise KeyFileError(f"{file}: another program writes it: run this again; if none does, delete {lock}") from None
    try:
        if (_text(file) if file.exists() else None) != before:
            raise KeyFileError(f"{file}: another program changed it meanwhile: run this again")
        replace_file(file, changed)
    finally:
        lock.unlink(missing_ok=True)


def _text(file: Path) -> str:
    try:
        return read_text(file, str(file), _MAX_MIB)
    except UnresolvedReference as error:
        cause = error.__context__
        text = (
            f"{error}; `keys add NAME --file {file}` writes it" if isinstance(cause, FileNotFoundError) else str(error)
        )
        raise (KeyFileGone if isinstance(cause, OSError) else KeyFileError)(text) from None


def _sound_entries(text: str) -> Iterator[ApiKey]:
    """Yield the entries without a fault of a text that may have others, none where it is too large or no list."""
    tree = None
    if len(text) <= _MAX_MIB * 2**20:
        with suppress(NotYaml):
            tree = read_yaml(text, "")
    for entry in tree if isinstance(tree, list) else ():
        with suppress(ValidationError):
            yield ApiKey.model_validate(entry)


@lru_cache(8)  # each of a dozen services and groups reads the same file, before the first of them knows of a change
def _parsed(file: Path, text: str) -> tuple[ApiKey, ...]:
    try:
        tree = read_yaml(text, str(file)) or []
        if not isinstance(tree, list):
            raise KeyFileError(f"{file}: it is not a list of keys, each beginning with - name: NAME")
        keys = _KEYS.validate_python(tree)
    except NotYaml as error:
        raise KeyFileError(str(error)) from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = f": entry {int(first['loc'][0]) + 1}" if first["loc"] else ""
        knob = "".join(f".{part}" for part in first["loc"][1:]).lstrip(".")
        raise KeyFileError(f"{file}{where}{f', {knob}' if knob else ''}: {first['msg']}") from None
    for name, number in Counter(key.name for key in keys).items():
        if number > MOST_OF_NAME:
            raise KeyFileError(f"{file}: {name} has {number} keys, at most {MOST_OF_NAME}: revoke one first")
    if len({key.sha256 for key in keys}) < len(keys):
        raise KeyFileError(f"{file}: a key is there twice: take one entry out")
    return keys
