"""What works and is worth a remark: in the log at start, and from ``check``."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gateway.config.source import load_settings
from gateway.config.warnings import config_warnings
from tests.each import each
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


BASIC = "backend.credentials={mode: basic, user: gateway, password: hunter2}"
STATIC = "backend.credentials={mode: static, send: {headers: {X-Key: hunter2}}}"
LISTING = "backend.listing.credentials={mode: static, send: {headers: {X-Key: hunter2}}}"
LOGIN = (
    "backend.credentials={mode: login, password: hunter2, send: {headers: {X-Session: '{id}'}}, "
    "login: {method: auth.login, params: ['{password}'], find: {id: $.result}}}"
)
CLIENT = (
    "backend.credentials={mode: client_credentials, client_id: gateway, client_secret: hunter2, "
    "token_endpoint: 'https://login.example.com/token'}"
)
FAR = "http://crm.example.com/jsonrpc"


@each(
    ("knobs", "count"),
    [
        *[((f"backend.url={FAR}", mode), 1) for mode in (BASIC, STATIC, LOGIN, CLIENT, LISTING)],
        ((f"backend.url={FAR.upper()}", BASIC), 1),
        (("backend.url=https://crm.example.com/", f"backend.listing.url={FAR}", BASIC), 1),
        ((f"backend.url={FAR}", BASIC, "backend.credentials.trusted_network=true"), 0),
        ((f"backend.url={FAR}",), 0),
        (("backend.url=https://crm.example.com/jsonrpc", BASIC), 0),
        *[((f"backend.url=http://{host}/", BASIC), 0) for host in ("127.0.0.1", "localhost", "[::1]")],
    ],
)
def test_a_secret_of_our_own_over_plain_http_beyond_this_machine_is_remarked(
    knobs: tuple[str, ...], count: int
) -> None:
    found = [*config_warnings(load_settings(None, ["auth.mode=off", *knobs], {}))]
    assert len(found) == count
    for remark in found:
        assert "a secret of the gateway's own goes to crm.example.com over http: use https, or set" in remark.lower()
        assert "hunter2" not in remark


def test_the_service_with_such_a_secret_is_named() -> None:
    services = (
        f"services={{crm: {{backend: {{url: '{FAR}', credentials: {{mode: static, send: {{headers: {{X: y}}}}}}}}}}}}"
    )
    (remark,) = config_warnings(load_settings(None, ["auth.mode=off", services], {}))
    assert remark.startswith("services.crm.backend.credentials: a secret of the gateway's own")


async def test_a_secret_over_plain_http_is_remarked_at_start(backend: ScriptedBackend) -> None:
    (remark,) = await remarks(backend, BASIC, f"backend.listing.url={FAR}")
    assert remark.startswith("backend.credentials: a secret of the gateway's own goes to crm.example.com over http")
