"""The configurations of services in docs/credentials.md, as files for a gateway."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = (ROOT / "docs" / "credentials.md").read_text()
_NAMED: Final = re.compile(r"# (\S+\.yaml)\n")


def preset(folder: Path, heading: str, url: str, secret: str) -> Path:
    """Write the YAML below a heading into a file of ``folder``, for the service at ``url``, and return it. ``secret``
    stands where the page has a variable. Further blocks go into the files that their first lines name."""
    section = PAGE.partition(f"\n### {heading}")[2].partition("\n### ")[0]
    first, *others = re.findall(r"^```yaml\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    for block in others:
        named = _NAMED.match(block)
        assert named is not None, block
        (folder / named[1]).write_text(block)
    text, urls = re.subn(r"(?m)^  url: \S+$", f"  url: {url}", first)
    text, secrets = re.subn(r"\$\{\w+\}", secret, text)
    assert (urls, secrets) == (1, 1), "one URL, and one secret"
    file = folder / "gateway.yaml"
    file.write_text(text)
    return file
