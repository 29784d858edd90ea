"""What works and is worth a remark: in the log at start, and from ``check``."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.fault.scripted import ScriptedBackend
from tests.front import front
from tests.program import run, settings


async def remarks(backend: ScriptedBackend, *knobs: str) -> list[str]:
    """What ``serve`` remarks when it starts."""
    with capture_logs() as lines:
        async with front(backend.url, *knobs):
            pass
    found = [line for line in lines if line["event"] == "remark on the configuration"]
    assert {line["log_level"] for line in found} <= {"warning"}
    return [line["remark"] for line in found]


PUBLIC = "server.public_url=https://gw.example.com"


@pytest.mark.parametrize(
    ("knobs", "count"),
    [
        ((PUBLIC,), 1),
        ((PUBLIC, "server.trusted_proxies=[10.0.0.0/8]"), 0),
        (("server.public_url=http://127.0.0.1:8080",), 0),
        (("server.public_url=http://[::1]:8080",), 0),
        (("server.public_url=http://localhost:8080",), 0),
        ((), 0),
    ],
)
async def test_a_public_gateway_that_knows_no_proxies_is_remarked_at_start(
    backend: ScriptedBackend, knobs: tuple[str, ...], count: int
) -> None:
    found = await remarks(backend, *knobs)
    assert len(found) == count
    assert all(remark.startswith("server.trusted_proxies is empty") for remark in found)


@pytest.mark.parametrize(
    ("mode", "count"), [(0o600, 0), (0o640, 0), (0o440, 0), (0o400, 0), (0o644, 1), (0o604, 1), (0o444, 1)], ids=oct
)
@pytest.mark.parametrize("linked", [False, True], ids=["a file", "a link, as Kubernetes mounts it"])
async def test_a_secret_file_that_every_user_may_read_is_remarked_at_start(
    backend: ScriptedBackend, tmp_path: Path, mode: int, count: int, linked: bool
) -> None:
    file = named = tmp_path / "secret"
    file.write_text("a-secret-of-32-bytes-or-somewhat-more\n")
    file.chmod(mode)
    if linked:
        named = tmp_path / "link"
        named.symlink_to(file)
    found = await remarks(backend, f"server.secret_file={named}")
    assert len(found) == count
    for remark in found:
        assert remark.startswith(f"server.secret_file: every user of this machine may read {named}")
        assert "a-secret" not in remark


async def test_check_remarks_the_same(backend: ScriptedBackend) -> None:
    ran = await run("check", *settings(backend.url, PUBLIC))
    assert ran.code == 0
    assert "server.trusted_proxies is empty" in ran.out.partition("\nremarks\n")[2]
