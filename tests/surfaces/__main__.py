"""Write what this version promises: ``python -m tests.surfaces``.

Before the first release, and with each later one. Between two releases the file stays, and the changelog names what
changed. Exit code: 1 where it has to stay, or where a change is not in the changelog.
"""

from __future__ import annotations

import subprocess
import sys

from gateway import __version__
from tests.surfaces import RELEASED, ROOT, current, read, text_of
from tests.surfaces.judging import faults


def main() -> int:
    now = current()
    if RELEASED.exists():
        since, released = read(RELEASED.read_text(encoding="utf-8"))
        if is_tagged(since):
            if since == __version__ and now != released:
                print(
                    f"{since} is released: what it promised stays. make test says which change CHANGELOG.md must name"
                )
                return 1
            changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
            if said := [*faults(released, now, since, __version__, changelog)]:
                print(*said, sep="\n")
                return 1
    RELEASED.write_text(text_of(__version__, now), encoding="utf-8")
    print(f"wrote {len(now)} promises of {__version__} to {RELEASED.relative_to(ROOT)}")
    return 0


def is_tagged(version: str) -> bool:
    """Return whether a version is released: whether there is its tag."""
    command = ["git", "tag", "--list", f"v{version}"]
    return bool(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip())


if __name__ == "__main__":
    sys.exit(main())
