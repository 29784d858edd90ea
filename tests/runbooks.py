"""Write the runbooks of the admin page from docs/operating.md: ``python -m tests.runbooks``.

``make config`` runs this. An installed gateway has no docs/, and its page may not link to another host's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parents[1]
SOURCE: Final = _ROOT / "docs" / "operating.md"
TEMPLATE: Final = _ROOT / "gateway" / "web" / "templates" / "runbooks.html"
PARTS: Final = ("Means", "Look at", "Do")
_ALERTS: Final = re.compile(r"^## Alerts\n(.*?)^## ", re.MULTILINE | re.DOTALL)
_SECTION: Final = re.compile(r"^### (\w+)\n(.*?)(?=^### |\Z)", re.MULTILINE | re.DOTALL)
_PART: Final = re.compile(r"^- \*\*([^*]+?)\.?\*\* (.*?)(?=^- |\Z)", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"\[([^]]+)\]\(([^)]+)\)")
_HEAD: Final = "{# Made by `make config` from docs/operating.md; do not edit. #}\n"


def runbooks(page: str) -> dict[str, dict[str, str]]:
    """The parts of each alert, as HTML, by the alert's name."""
    found = _ALERTS.search(page)
    sections = _SECTION.findall(found[1] if found else "")
    return {
        name: {part: _inline(" ".join(text.split())) for part, text in _PART.findall(body)} for name, body in sections
    }


def _inline(text: str) -> str:
    """HTML of one paragraph: code, and links within this page. Of other pages it has the name."""
    pieces = re.split(r"`([^`]+)`", text)
    return "".join(f"<code>{escape(one)}</code>" if number % 2 else _prose(one) for number, one in enumerate(pieces))


def _prose(text: str) -> str:
    return _LINK.sub(_link, escape(text, quote=False))


def _link(found: re.Match[str]) -> str:
    words, target = found.groups()
    return f'<a href="{target}">{words}</a>' if target.startswith("#") else f"{words} (docs/{target})"


def template(page: str) -> str:
    """The template: a macro with the remedy for an alert, and one with all runbooks."""
    return _HEAD + "\n".join((*_remedies(page), *_all(page))) + "\n"


def _remedies(page: str) -> Iterator[str]:
    yield "{% macro remedy(anchor) %}"
    for number, (name, parts) in enumerate(runbooks(page).items()):
        yield f'{{% {"elif" if number else "if"} anchor == "{name.lower()}" %}}'
        yield parts["Do"]
    yield "{% endif %}\n{% endmacro %}"


def _all(page: str) -> Iterator[str]:
    yield "{% macro runbooks() %}"
    for name, parts in runbooks(page).items():
        yield f'<details id="{name.lower()}">\n<summary>{name}</summary>\n<dl>'
        yield from (f"<dt>{part}</dt><dd>{parts[part]}</dd>" for part in PARTS)
        yield "</dl>\n</details>"
    yield "{% endmacro %}"


if __name__ == "__main__":
    TEMPLATE.write_text(template(SOURCE.read_text()))
