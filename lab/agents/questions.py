"""Read the questions: what a user asks of a service, and the call that answers it.

``from_documents`` were written from the services' own documents, before their author had seen how search ranks;
``later`` after that, and all before the ranking was changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

FOLDER: Final = Path(__file__).parent / "questions"
_ANY: Final = object()


@dataclass(frozen=True)
class Question:
    """Hold what a user asks, and the method and arguments that answer it. ``result`` is the right one, where only one
    is. A call of what the service lacks here is not made (``is_called``): then its schema alone checks it."""

    listing: str
    text: str
    method: str
    arguments: Mapping[str, Any]
    result: Any = _ANY
    is_called: bool = True

    @property
    def name(self) -> str:
        """Return the name of the tool as a model is shown it."""
        return self.method.replace(".", "_")

    def is_answered_by(self, value: Any) -> bool:
        return self.result is _ANY or bool(self.result == value)


def read_questions(folder: Path = FOLDER) -> list[Question]:
    """Return all questions, listing by listing."""
    return [
        Question(
            path.stem,
            entry["question"],
            entry["tool"],
            entry["arguments"],
            entry.get("result", _ANY),
            entry.get("is_called", True),
        )
        for path in sorted(folder.glob("*.yaml"))
        for part in yaml.safe_load(path.read_text(encoding="utf-8")).values()
        for entry in part
    ]
