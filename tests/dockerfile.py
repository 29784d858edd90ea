"""Read deploy/Dockerfile."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

DEPLOY: Final = Path(__file__).parents[1] / "deploy"


def instructions() -> list[list[tuple[str, str]]]:
    """The Dockerfile's instructions by stage; what comes before the first stage is stage 0."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", "")
    stages: list[list[tuple[str, str]]] = [[]]
    for line in filter(None, map(str.strip, text.splitlines())):
        name, _, argument = line.partition(" ")
        if name == "FROM":
            stages.append([])
        stages[-1].append((name, argument.strip()))
    return stages


def only(stage: list[tuple[str, str]], name: str) -> str:
    (argument,) = [argument for known, argument in stage if known == name]
    return argument
