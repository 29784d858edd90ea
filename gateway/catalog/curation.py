"""Apply the operator's patterns to methods: which are offered, and which overrides they get.

Patterns are shell globs and case-sensitive. A method's own name always matches it, even with glob characters in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import translate
from typing import Any, Final

from gateway.catalog.risks import reveals_secret
from gateway.settings.catalog import EXCLUDED, Annotations, CatalogSettings, ToolOverride, has_one_star
from gateway.text import did_you_mean

_SHOWN: Final = 3


class Curation:
    """Decide by the catalog settings which methods are offered, with which overrides."""

    def __init__(self, settings: CatalogSettings) -> None:
        self._settings = settings
        self._include = _matcher(settings.include)
        self._exclude = _matcher(settings.exclude)
        self._hides_secrets = settings.exclude == EXCLUDED
        self._overrides = [(pattern, _matcher([pattern]), override) for pattern, override in settings.tools.items()]

    def offers(self, method: str) -> bool:
        if not self._include(method) or self._exclude(method):
            return False
        return not (self._hides_secrets and reveals_secret(method))

    def override_for(self, method: str) -> ToolOverride:
        """Return all overrides that match, merged knob by knob; later ones win."""
        merged: dict[str, Any] = {}
        for pattern, matches, override in self._overrides:
            if matches(method):
                for name in override.model_fields_set:
                    value, before = getattr(override, name), merged.get(name)
                    if name == "arguments":
                        value = _merge_arguments(before or {}, value)
                    elif name == "name" and value is not None:
                        value = _expand_name(value, pattern, method)
                    elif isinstance(before, Annotations):
                        value = before.model_copy(update=value.model_dump(exclude_unset=True))
                    merged[name] = value
        return ToolOverride.model_construct(**(ToolOverride().__dict__ | merged))

    def remarks(self, methods: Iterable[str]) -> Iterator[str]:
        """Yield a sentence for each pattern that does not fit the listing. Often a name is misspelled."""
        listed = list(methods)
        if not listed:
            return
        # The default patterns of exclude are ours, and few services have methods that they match.
        own = [pattern for pattern in self._settings.exclude if pattern not in EXCLUDED]
        for knob, patterns in (("include", self._settings.include), ("exclude", own)):
            for pattern in patterns:
                if not any(map(_matcher([pattern]), listed)):
                    yield f'catalog.{knob}: "{pattern}" matches no method of the listing'
        hidden = [name for name in listed if _BY_DEFAULT(name) or reveals_secret(name)]
        exposed = [name for name in hidden if self.offers(name) and not self._names_method(name)]
        if exposed:
            yield (
                f"{list_some(exposed)}: hidden by default, and offered because catalog.exclude has a list of its own; "
                "add them to that list, or to catalog.include if you want to offer them"
            )
        for pattern, matches, override in self._overrides:
            matched = [method for method in listed if matches(method)]
            offered = [method for method in matched if self.offers(method)]
            if not matched:
                near = did_you_mean(pattern, () if "*" in pattern else listed)
                yield f'catalog.tools: "{pattern}" matches no method of the listing{near}'
            elif not offered:
                yield f'catalog.tools: "{pattern}" matches only methods that catalog.include and exclude leave out'
            elif override.name is not None and "*" not in override.name and len(offered) > 1:
                yield (
                    f'catalog.tools: "{pattern}" gives {len(offered)} methods one name; all but one get a suffix. '
                    "Put a * into the name; it becomes what the * of the pattern matches"
                )

    def _names_method(self, method: str) -> bool:
        """Tell whether the operator names exactly this method."""
        return method in self._settings.include or method in self._settings.tools


def list_some(names: Sequence[str]) -> str:
    """Return the first few of many names, and how many more there are."""
    shown = ", ".join(names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def _merge_arguments(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Return the overrides of arguments merged knob by knob; later ones win."""
    merged = dict(before)
    for name, argument in after.items():
        if name in merged:
            argument = merged[name].model_copy(
                update={knob: getattr(argument, knob) for knob in argument.model_fields_set}
            )
        merged[name] = argument
    return merged


def _expand_name(name: str, pattern: str, method: str) -> str:
    if "*" not in name or not has_one_star(pattern):
        return name
    head, _, tail = pattern.partition("*")
    return name.replace("*", method[len(head) : len(method) - len(tail)])


def _matcher(patterns: Iterable[str]) -> Callable[[str], Any]:
    together = "|".join(rf"{translate(pattern)}|{re.escape(pattern)}\Z" for pattern in patterns)
    return re.compile(together or r"(?!)").match


_BY_DEFAULT: Final = _matcher(EXCLUDED)
