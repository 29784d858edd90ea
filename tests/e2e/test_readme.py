"""The README's session: what it says to type prints what it shows. `make release` plays it in fresh environments."""

from __future__ import annotations

from tests.readme_session import replay


async def test_the_commands_and_the_client_of_the_readme_print_what_it_shows() -> None:
    await replay()
