"""``make image``: build the image twice, look into it, run it in front of a real service, and print what was seen.

The image's layers are the same both times, hold no pip and at most :data:`MAX_BYTES`. It runs as its own user and as
one that nobody knows, on a root that is read-only; it serves, is healthy, and ends at SIGTERM. ``build/`` gets its
software bill of materials (CycloneDX). Exit code: 0 where all of it is so.
"""

from __future__ import annotations

import asyncio
import re
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from mcp.client.client import Client

from gateway import __version__
from lab.image import builder
from lab.image.lock import ROOT, write_bill
from lab.image.running import Container
from tests.services import launch
from tests.services.process import PORTS, Service
from tests.waiting import wait_until

TAG: Final = f"localhost/jsonrpc-mcp-gateway:{__version__}"
MAX_BYTES: Final = 120_000_000
SBOM: Final = ROOT / "build" / "jsonrpc-mcp-gateway.cdx.json"
UNKNOWN_USER: Final = 45_678
"""A number that no file of the image knows, as some clusters choose one for each namespace."""


def main() -> int:
    """Build, look, run. Raise AssertionError or RuntimeError with the reason at the first thing that is not so."""
    if missing := builder.missing():
        print(f"programs are missing. Install them, for example: sudo apt-get install -y {' '.join(missing)}")
        return 1
    started = time.monotonic()
    for line in proved():
        print(f"  {line}", flush=True)
    print(f"{TAG} is built, and does what deploy/ relies on ({time.monotonic() - started:.0f} s)")
    return 0


def proved(source: Path = ROOT, base: str = "") -> Iterator[str]:
    """Build from the tree ``source``, on ``base`` as :func:`builder.base_of` has it. Yield a line for each thing that
    was seen to be so."""
    component = builder.base_of(base)
    yield f"{component['description']}: {component['name']}, sha256:{component['hashes'][0]['content']}"
    image = builder.build(TAG, source, base)
    again = builder.build(f"{TAG}-again", source, base)
    assert builder.layers(image) == builder.layers(again), "the second build has other layers"
    builder.forget(f"{TAG}-again")
    yield f"built twice, the same layers: {builder.layers(image)[-1]}"
    size = builder.layer_bytes(image, base)
    assert 0 < size <= MAX_BYTES, f"the layers above the base have {size / 1e6:.0f} MB, at most {MAX_BYTES / 1e6:.0f}"
    yield f"{size / 1e6:.0f} MB above the base (at most {MAX_BYTES / 1e6:.0f})"
    with builder.unpacked(TAG) as root:
        yield from inside(root, component)
    with launch.flask_app() as service:
        for user in (None, UNKNOWN_USER):
            with builder.unpacked(TAG) as root:
                yield from run(image, root, service, user)


def inside(root: Path, base: Mapping[str, Any]) -> Iterator[str]:
    """Look at the files: what is not there, and what is."""
    found = [path.name for path in root.rglob("pip") if not path.is_symlink()]
    assert not found, f"pip is there: {found}"
    assert not any(root.rglob("ensurepip")), "ensurepip is there"
    assert any(root.glob("opt/gateway/lib/python3.*/site-packages/gateway/__pycache__/*.pyc")), "no bytecode"
    bill = write_bill(SBOM, base)
    known = {(entry["name"].lower(), entry.get("version")) for entry in bill["components"]}
    installed = set(distributions(root))
    assert installed <= known, f"not in {SBOM.name}: {sorted(installed - known)}"
    yield f"{len(installed)} distributions, each in {SBOM.relative_to(ROOT)}"


def distributions(root: Path) -> Iterator[tuple[str, str]]:
    """Yield name and version of what is installed beside the gateway."""
    for folder in root.glob("opt/gateway/lib/python3.*/site-packages/*.dist-info"):
        text = (folder / "METADATA").read_text(encoding="utf-8")
        name, version = (re.search(rf"^{field}: (.+)$", text, re.MULTILINE) for field in ("Name", "Version"))
        assert name, folder
        assert version, folder
        if name[1] != "jsonrpc-mcp-gateway":
            yield re.sub(r"[-_.]+", "-", name[1]).lower(), version[1]


def run(image: Mapping[str, Any], root: Path, service: Service, user: int | None) -> Iterator[str]:
    """Serve ``service`` from the image, by its own user or by ``user``, and end it by SIGTERM."""
    with tempfile.TemporaryDirectory(prefix="image-") as folder:
        Path(folder).chmod(0o755)
        config, output = Path(folder) / "etc", Path(folder) / "output.log"
        config.mkdir(mode=0o755)
        (config / "gateway.yaml").write_bytes((ROOT / "config" / "gateway.yaml").read_bytes())
        uid = int(image["Docker"]["config"]["User"].partition(":")[0]) if user is None else user
        assert uid
        container = Container(image, root, config, uid)
        for command in (["python", "-m", "pip", "--version"], ["python", "-m", "ensurepip", "--version"]):
            assert container.run(*command).returncode, f"{command} works in the image"
        written = container.run("touch", "/opt/gateway/written")
        assert "Read-only file system" in written.stderr, written
        port, admin = PORTS.stop + 11, PORTS.stop + 12
        environment = {
            "GATEWAY__BACKEND__URL": service.url,
            "GATEWAY__AUTH__MODE": "off",
            "GATEWAY__SERVER__PORT": str(port),
            "GATEWAY__SERVER__ADMIN_PORT": str(admin),
        }
        process = container.serve(environment, output)
        try:
            wait_until(lambda: process.poll() is not None or is_healthy(container, environment), within=60)
            assert process.poll() is None, output.read_text()
            names = asyncio.run(call(port))
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0, output.read_text()
        finally:
            process.kill()
    who = f"its own user {uid}" if user is None else f"the unknown user {uid}"
    yield f"as {who}, read-only, without pip: healthy; the official client sees {names}; SIGTERM: exit 0"


def is_healthy(container: Container, environment: Mapping[str, str]) -> bool:
    """Return whether HEALTHCHECK's command ends with 0."""
    return container.run(*container.health_command, environment=environment).returncode == 0


async def call(port: int) -> str:
    """List the tools with the official client, call one, and return how many there are."""
    async with Client(f"http://127.0.0.1:{port}/mcp") as client:
        tools = (await client.list_tools()).tools
        called = await client.call_tool("App_add", {"a": 2, "b": 3})
        assert not called.is_error, called
        return f"{len(tools)} tools and calls one"


if __name__ == "__main__":
    sys.exit(main())
