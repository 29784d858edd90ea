"""docs/drupal.md: its commands print what they show, and its configurations serve a site."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

from tests.authorization.issuer import ForgedIssuer
from tests.front import front
from tests.readme_session import COMMAND, output_of
from tests.services import launch

PAGE: Final = (Path(__file__).parents[2] / "docs" / "drupal.md").read_text()
SITE: Final = "https://drupal.example.com"
FILES: Final = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


async def test_the_commands_of_the_page_print_what_it_shows(tmp_path: Path) -> None:
    commands = COMMAND.findall(PAGE)
    assert [command.split()[1] for command, _ in commands] == ["check", "call", "connect", "connect"]
    with launch.drupal() as site:
        # Our site has a user whose password is its name, and who may do what the page's user may.
        here = FILES[0].replace(SITE, site.base).replace("user: gateway", "user: editor")
        (tmp_path / "gateway.yaml").write_text(here)
        for command, shown in commands:
            printed = await output_of(
                "sh", "-c", f"cd {tmp_path} && DRUPAL_PASSWORD=editor {command}", python=sys.executable
            )
            assert printed.replace(site.base, SITE).replace(f"{tmp_path}/", "").strip() == shown.strip()
    assert '"stdio"' in (tmp_path / "mcp.json").read_text()
    assert '"CLIENT_ID": "mcp_client"' in (tmp_path / "cursor.json").read_text()


async def test_with_oauth_a_caller_sees_what_the_site_lets_that_caller_do(tmp_path: Path) -> None:
    async with ForgedIssuer("mcp_client") as issuer:
        with launch.drupal(jwks=issuer.jwks_uri, audience="mcp_client") as site:
            here = FILES[1].replace(f"{SITE}/oauth/jwks", issuer.jwks_uri)
            here = here.replace(f"issuer: {SITE}/", f"issuer: {issuer.issuer}").replace(SITE, site.base)
            (tmp_path / "gateway.yaml").write_text(here)
            async with front(site.url, "auth.mode=jwt", file=tmp_path / "gateway.yaml") as gateway:
                token = issuer.sign(header={"typ": "JWT"}, sub="editor", scope=["content:read"])
                bearer = {"Authorization": f"Bearer {token}"}
                tools = await gateway.tools(headers=bearer)
                assert list(tools) == ["examples_articles_list", "examples_contentTypes_list"]
                called = await gateway.call("modern", "examples_contentTypes_list", {}, bearer)
                assert called.value == [{"id": "article", "label": "Article"}]
                assert (await gateway.call("rest", "examples_contentTypes_list", {})).status == 401
