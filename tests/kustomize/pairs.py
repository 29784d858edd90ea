"""Few pairs of components, in which each kind of change that one makes meets each kind that another makes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import yaml

Pair: TypeAlias = tuple[str, str]
Meeting: TypeAlias = frozenset[str]
"""Two kinds of change, or one that both make."""


def kinds(component: Path) -> set[str]:
    """Return the kinds of change that a component makes: what it adds, which member of what it patches."""
    recipe = yaml.safe_load((component / "kustomization.yaml").read_text(encoding="utf-8"))
    found = {member for member in ("resources", "configurations", "configMapGenerator") if member in recipe}
    for other in recipe.get("components", ()):
        found |= kinds(component / other)
    for patch in recipe.get("patches", ()):
        text = patch.get("patch") or (component / patch["path"]).read_text(encoding="utf-8")
        change = yaml.safe_load(text)
        if isinstance(change, list):
            found |= {f"{patch['target']['kind']} {one['op']} {one['path']}" for one in change}
        else:
            found |= {f"{change['kind']} {member}" for member in _members(change)}
    return found


def _members(change: dict[str, Any]) -> Iterator[str]:
    """Yield the members that a strategic merge changes, of a pod's container those of the container."""
    for name, value in change.items():
        if name in ("spec", "template"):
            yield from _members(value)
        elif name == "containers":
            for container in value:
                yield from _members(container)
        elif name not in ("apiVersion", "kind", "metadata", "name"):
            removes = isinstance(value, list) and any("$patch" in one for one in value)
            yield f"{name} removed" if removes else name


def meetings(pairs: Sequence[Pair], made: Mapping[str, set[str]]) -> set[Meeting]:
    """Return which kinds of change meet in these pairs. ``made`` has those of each component."""
    return {frozenset((one, other)) for pair in pairs for one in made[pair[0]] for other in made[pair[1]]}


def enough(pairs: Sequence[Pair], made: Mapping[str, set[str]]) -> list[Pair]:
    """Return few of the pairs in which all meet that meet in any: each time the pair with most that is new."""
    missing = meetings(pairs, made)
    chosen: list[Pair] = []
    while missing:
        chosen.append(max(pairs, key=lambda pair: len(meetings([pair], made) & missing)))
        missing -= meetings(chosen[-1:], made)
    return chosen
