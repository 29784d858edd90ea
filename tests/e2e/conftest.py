"""What the tests of processes share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def secret(tmp_path: Path) -> str:
    """Return the knob that names a file with a secret of the gateway's own."""
    file = tmp_path / "secret"
    file.write_text("0123456789abcdef")
    file.chmod(0o600)
    return f"server.secret_file={file}"
