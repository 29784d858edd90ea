"""docs/quickstart-oauth.md: its commands print what they show, before a real authorization server."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.authorization.demo import READ, bookshop
from tests.authorization.servers import Resource, oidc_provider
from tests.program import Program
from tests.readme_session import output_of
from tests.services.process import free_port

PAGE: Final = (Path(__file__).parents[2] / "docs" / "quickstart-oauth.md").read_text()
BLOCKS: Final = re.findall(r"^```console\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS: Final = [
    (command, shown)
    for block in BLOCKS
    for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
]


def plain(text: str) -> str:
    """Return the text without what differs from run to run: times, and the width of columns."""
    return re.sub(r" {2,}", "  ", re.sub(r"\d{4}-\d\d-\d\dT[\d:]+Z", "TIME", text)).strip()


async def test_the_commands_of_the_page_print_what_it_shows(tmp_path: Path) -> None:
    (config,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert [command.split()[0] for command, _ in COMMANDS].count("jsonrpc-mcp-gateway") == 3
    port = free_port()
    resource = f"http://127.0.0.1:{port}/mcp"
    async with oidc_provider([Resource(resource, (READ,))]) as server, bookshop(server, resource) as service:
        here, there = exchanged(
            {
                "https://gw.example.com": f"http://127.0.0.1:{port}",
                "https://login.example.com": server.issuer,
                "https://books.example.com/jsonrpc": service,
            }
        )
        file = tmp_path / "gateway.yaml"
        file.write_text(here(config))
        secrets = f"cd {tmp_path}; CLIENT_ID={server.machine.id} CLIENT_SECRET={server.machine.secret}; "
        ports = ("--set", f"server.port={port}", "--set", "server.admin_port=0")
        async with Program("serve", "--config", str(file), *ports) as program:
            await program.logged("gateway started")
            for command, shown in COMMANDS:
                printed = await output_of("bash", "-c", secrets + here(command), python=sys.executable)
                assert plain(there(printed).replace(f"{tmp_path}/", "")) == plain(shown), command


def exchanged(addresses: dict[str, str]) -> tuple[Callable[[str], str], Callable[[str], str]]:
    """Return what puts the addresses of this run in place of the page's, and what puts them back."""

    def replaced(text: str, pairs: list[tuple[str, str]]) -> str:
        for old, new in pairs:
            text = text.replace(old, new)
        return text

    there = [(ours, page) for page, ours in addresses.items()]
    return lambda text: replaced(text, [*addresses.items()]), lambda text: replaced(text, there)
