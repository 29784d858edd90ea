"""docs/aiohttp.md: its program serves what the page says."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

from aiohttp import ClientSession

from tests.fault.scripted import ScriptedBackend
from tests.protocol.talk import Client
from tests.services.process import Service
from tests.waiting import until

PAGE: Final = (Path(__file__).parents[2] / "docs" / "aiohttp.md").read_text()
(PROGRAM,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
(CONFIGURATION,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
(URL,) = re.findall(r"connect to `http://localhost:8080(\S+)/mcp`", PAGE)


async def test_the_program_of_the_page_serves_where_the_page_says(tmp_path: Path, backend: ScriptedBackend) -> None:
    (tmp_path / "gateway.yaml").write_text(CONFIGURATION.replace("http://127.0.0.1:8000/jsonrpc", backend.url))
    here = PROGRAM.replace('"gateway.yaml"', repr(str(tmp_path / "gateway.yaml")))

    def command(port: int) -> list[str]:
        (tmp_path / "program.py").write_text(here.replace("port=8080", f"port={port}"))
        return [sys.executable, str(tmp_path / "program.py")]

    with Service("aiohttp_page", command) as service:
        async with ClientSession() as session:
            client = Client(session, service.port, URL)
            await until(lambda: client.get("/mcp/tools/list"), lambda answer: answer.status == 200)
            called = await client.post("/mcp/tools/invoke", {"name": "add", "arguments": {"a": 2, "b": 3}})
    assert called.json == {"result": {"sum": 5}}
