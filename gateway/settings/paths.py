"""Find knobs by their path, such as ``backend.listing.url``, and the type of each."""

import difflib
import re
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeAlias, Union, get_args, get_origin

from pydantic import BaseModel, JsonValue, PlainSerializer, Secret, SecretStr
from pydantic.fields import FieldInfo

from gateway.settings import Settings
from gateway.settings.custom import Path as CompiledPath
from gateway.settings.groups import GroupSections
from gateway.settings.knobs import Document
from gateway.settings.services import ServiceSections

Key: TypeAlias = str | int
_TEXTS: Final = (str, SecretStr, CompiledPath)
_JSON: Final = (JsonValue, Secret[JsonValue])
_OF_SERVICE: Final = re.compile(rf"services_(.+?)_(?:{'|'.join(ServiceSections.model_fields)})_")


@dataclass(frozen=True)
class Knob:
    """Hold a knob, a section, or a value below a knob. ``path`` is spelled as in the file, ``kinds`` are its types."""

    path: tuple[Key, ...]
    kinds: tuple[Any, ...]

    @property
    def is_secret(self) -> bool:
        return SecretStr in self.kinds or Secret[JsonValue] in self.kinds

    @property
    def is_text(self) -> bool:
        """Return whether its value is a word or a text, secret or not, and nothing else."""
        return all(kind in _TEXTS or get_origin(kind) is Literal for kind in self.kinds if kind is not types.NoneType)

    @property
    def is_json(self) -> bool:
        """Return whether its value is any JSON, which may be a text."""
        return any(kind in _JSON for kind in self.kinds)

    @property
    def is_optional(self) -> bool:
        return types.NoneType in self.kinds


def find_knob(path: Sequence[Key]) -> Knob | None:
    """Return what is at ``path``, or None. Case does not count: names of environment variables are in upper case."""
    found = Knob((), (Settings,))
    for key in path:
        below = _below(found, key)
        if below is None:
            return None
        found = below
    return found


def nearest_knob(path: Sequence[str]) -> tuple[Key, ...] | None:
    """Return the path of the knob that a misspelled ``path`` probably means, or None where no knob is similar."""
    known = [*knobs(), *_knobs_of_service(path)]
    paths: list[tuple[Key, ...]] = [tuple(name.split(".")) for name, _ in known if "*" not in name]
    for length in range(len(path)):
        section = find_knob(path[:length])
        paths += [(*section.path, key) for key in keys_of(section)] if section else []
    # Compare with one separator: that of the environment, two underscores, consists of characters of names.
    by_name = {_flat(one): one for one in paths}
    (name,) = difflib.get_close_matches(_flat(path), by_name, n=1) or (None,)
    return None if name is None else by_name[name]


def _knobs_of_service(path: Sequence[str]) -> Iterator[tuple[str, FieldInfo]]:
    """Return the knobs of the service that a misspelled path belongs to, if any."""
    match = _OF_SERVICE.match(_flat(path))
    name = match[1].strip("_") if match else path[1] if len(path) > 1 and path[0] == "services" else None
    return iter(()) if name is None else knobs(ServiceSections, f"services.{name}")


def _flat(path: Sequence[Key]) -> str:
    return "_".join(map(str, path)).lower()


def _below(parent: Knob, key: Key) -> Knob | None:
    for known, field in keys_of(parent).items():
        if known.lower() == str(key).lower():
            return Knob((*parent.path, known), _alternatives(field.annotation))
    for kind in parent.kinds:
        if get_origin(kind) is dict:
            return Knob((*parent.path, key), _alternatives(get_args(kind)[1]))
        elif get_origin(kind) is tuple and isinstance(key, int):
            return Knob((*parent.path, key), _alternatives(get_args(kind)[0]))
        elif kind in _JSON:
            return Knob((*parent.path, key), (JsonValue,))
    return None


def keys_of(section: Knob) -> dict[str, FieldInfo]:
    """Return the fields of a section, by their names in the file."""
    models = filter(None, map(_as_model, section.kinds))
    return {field.alias or name: field for model in models for name, field in model.model_fields.items()}


def as_written(value: Any, field: FieldInfo) -> Any:
    """Return the value of a knob as it is written in a file: a duration or a size with its unit."""
    inner = (part for kind in get_args(field.annotation) for part in getattr(kind, "__metadata__", ()))
    for part in (*field.metadata, *inner):
        if isinstance(part, PlainSerializer) and isinstance(value, int | float):
            return part.func(value)  # type: ignore[call-arg]
    return value


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) is Annotated:
        return _alternatives(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(kind for member in get_args(annotation) for kind in _alternatives(member))
    return (annotation,)


def _as_model(kind: Any) -> type[BaseModel] | None:
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def knobs(model: type[BaseModel] = Settings, path: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Yield every knob with its path, of elements under ``.*``, of a service once. A document counts as one knob."""
    for name, field in model.model_fields.items():
        where = f"{path}.{field.alias or name}".lstrip(".")
        inner, element = model_of(field), element_of(field)
        if inner is not None:
            yield from knobs(inner, where)
        else:
            yield where, field
        if element is GroupSections:
            yield f"{where}.*.services", element.model_fields["services"]  # its sections are those of a service
        elif element is not None and element is not ServiceSections and not issubclass(element, Document):
            yield from knobs(element, f"{where}.*")


def model_of(field: FieldInfo) -> type[BaseModel] | None:
    """Return the section that a field is, or None. A document is a value, not a section."""
    model = next(filter(None, map(_as_model, _alternatives(field.annotation))), None)
    return None if model is None or issubclass(model, Document) else model


def documents() -> Iterator[tuple[str, type[Document]]]:
    """Yield each model that is a document, with its path. Entries of a list or a map are under ``.*``."""
    pending = [(path, field) for path, field in knobs()]
    for path, field in pending:
        own = next(filter(None, map(_as_model, _alternatives(field.annotation))), None)
        for where, model in ((path, own), (f"{path}.*", element_of(field))):
            if model is not None and issubclass(model, Document):
                yield where, model
                pending += [(f"{where}.{member.alias or name}", member) for name, member in model.model_fields.items()]


def element_of(field: FieldInfo) -> type[BaseModel] | None:
    """Return the model of the elements of a map or a list, or None where they are plain values."""
    origin, arguments = get_origin(field.annotation), get_args(field.annotation)
    element = arguments[1] if origin is dict else arguments[0] if origin is tuple else None
    return _as_model(element)
