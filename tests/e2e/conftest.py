"""What the tests of processes share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests import starts


@pytest.fixture(scope="module")
def forks() -> Iterator[starts.ForkServer]:
    """Return a fork server, also where all starts are real ones."""
    if starts.fork_server is not None:
        yield starts.fork_server
        return
    with closing(starts.ForkServer()) as server:
        yield server


@pytest.fixture
def secret(tmp_path: Path) -> str:
    """Return the knob that names a file with a secret of the gateway's own."""
    file = tmp_path / "secret"
    file.write_text("0123456789abcdef")
    file.chmod(0o600)
    return f"server.secret_file={file}"
