"""Resolve ``${NAME}``, ``${file:/path}`` and ``$${`` in the configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gateway.config.strict_yaml import read_yaml

_MAX_BYTES: Final = 1024**2
_REFERENCE: Final = re.compile(r"\$\$\{|\$\{([^}]*)\}")
# References are hidden while YAML is parsed, since braces and quotes mean something there: "$", "{" and "}" become
# characters of Unicode's last private plane, which no configuration uses.
_IN_YAML: Final = re.compile(r"\$?\$\{[^{}\"'\n]*\}")
_SHIELD: Final = str.maketrans("${}", "\U0010fff0\U0010fff1\U0010fff2")
_UNSHIELD: Final = {ord(shielded): char for char, shielded in zip("${}", "\U0010fff0\U0010fff1\U0010fff2", strict=True)}


class UnresolvedReference(ValueError):
    """Raised where a reference has no value, or a file cannot be read; the message says which and why."""


def read_text(file: Path, name: str) -> str:
    """Return the text of a file, of at most 1 MiB. Raises :class:`UnresolvedReference`, which names it ``name``."""
    try:
        with file.open("rb") as opened:
            content = opened.read(_MAX_BYTES + 1)
        text = content.decode()
    except OSError as error:
        raise UnresolvedReference(f"{name}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UnresolvedReference(f"{name}: not UTF-8; save it in that encoding") from None
    except ValueError:
        raise UnresolvedReference("a name of a file must not have a null byte") from None
    if len(content) > _MAX_BYTES:
        raise UnresolvedReference(f"{name}: larger than 1 MiB")
    return text


@dataclass(frozen=True)
class ConfigReferences:
    """Resolve references to variables of ``environ`` and to files, whose relative names start from ``folder``.

    Each file that is asked for is added to ``files``, also where it cannot be read.
    """

    environ: Mapping[str, str]
    folder: Path
    files: set[Path]

    def resolve(self, text: str) -> str:
        """Return ``text`` with its references replaced. The values are not resolved again.

        Raises :class:`UnresolvedReference`.
        """
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
    """Return one YAML document with its references as they are written, even where YAML would read braces as a map.

    They are resolved afterwards, value by value, so that a value cannot change the structure of the document.
    Raises :class:`~gateway.config.strict_yaml.NotYaml`.
    """
    return _unshield(read_yaml(_IN_YAML.sub(lambda match: match[0].translate(_SHIELD), text), origin))


def _unshield(value: Any) -> Any:
    if isinstance(value, dict):
        return {key.translate(_UNSHIELD): _unshield(child) for key, child in value.items()}
    if isinstance(value, list):
        return [_unshield(child) for child in value]
    return value.translate(_UNSHIELD) if isinstance(value, str) else value
