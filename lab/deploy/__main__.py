"""``make deploy-test``: run the overlay for twelve services as processes. Exit 1 where one line does not hold.

Real services, a real authorization server, Redis with TLS and an ACL, nginx, and three replicas from what kustomize
renders. Times are those of the manifests; none is scaled.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from gateway.telemetry import logs
from lab.deploy import killed, rendered, rolled, versions
from lab.deploy.older import CommitMissing, older
from lab.deploy.proofs import Proofs
from lab.deploy.world import world

LONGEST: Final = 600.0
"""Seconds. What takes longer has come to a stop somewhere."""


async def main() -> int:
    logs.configure("error", "text")  # of what is ours in this process
    begun, proofs = time.monotonic(), Proofs()
    try:
        before = await asyncio.to_thread(older)
    except CommitMissing as missing:
        print(missing)
        return 1
    with tempfile.TemporaryDirectory(prefix="deploy-") as folder:
        async with asyncio.timeout(LONGEST), world(Path(folder)) as it:
            await rendered.row(it, proofs)
            await rolled.row(it, proofs)
            await killed.row(it, proofs)
            await versions.row(it, proofs, before)
    seconds = time.monotonic() - begun
    print(f"\n{proofs.count - len(proofs.missed)} of {proofs.count} lines hold, {seconds:.0f} s")
    return 1 if proofs.missed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
