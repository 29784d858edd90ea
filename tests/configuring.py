"""Configurations of a test: as files, as an environment, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config.source import ConfigError, load_settings
from gateway.settings import Settings

URL = "http://127.0.0.1:8000/jsonrpc"
OPEN = "auth: {mode: off}\n"
BASE = f"backend: {{url: {URL}}}\n{OPEN}"
ENVIRONMENT = {"GATEWAY__BACKEND__URL": URL, "GATEWAY__AUTH__MODE": "off"}


def file(directory: Path, text: str | bytes) -> Path:
    path = directory / "gateway.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def put(file: Path, text: str) -> None:
    """Replace a file in one step, as editors and deployment tools do."""
    temporary = file.with_name(".new")
    temporary.write_text(text)
    temporary.replace(file)


def in_place(file: Path, text: str) -> None:
    """Write a file that is there, as careless tools do: others see it empty, and by half."""
    file.write_bytes(text.encode(errors="surrogateescape"))


def faults(path: Path | None = None, *overrides: str, **environ: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        load_settings(path, overrides, environ)
    return caught.value.faults


def secret_of(settings: Settings) -> str:
    send = settings.backend.credentials.send
    assert send is not None
    (value,) = send.headers.values()
    return value.get_secret_value()
