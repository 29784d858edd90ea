"""``make release [URL=https://…] [IMAGE=no] [BASE=…@sha256:…]``: make a release in ``dist/``, and try it.

Wheel and sdist are built from the commit that is checked out, checked, and installed into fresh environments of each
Python, where the README's session runs. Beside them are the image, a bill of materials (CycloneDX) and checksums. With
URL the built files name the project's address, and their links are absolute. BASE is what the image stands on; without
it, that is made here. Nothing is uploaded.

Exit code: 0 where all of it is so, 1 with the reason at the first thing that is not.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from gateway import __version__
from lab.image import __main__ as image
from lab.image import builder, lock
from lab.release import distributions, installed, tree
from lab.release.tree import ROOT, Refused
from tests import surfaces

DIST: Final = ROOT / "dist"
_STEM: Final = f"jsonrpc-mcp-gateway-{__version__}"
_NEXT: Final = f"""
Next, by hand:
  git tag v{__version__} && git push origin v{__version__}
  twine upload dist/*.whl dist/*.tar.gz"""
_NEXT_IMAGE: Final = f"  docker load --input dist/{_STEM}.image.tar, then docker tag and docker push"


def main(arguments: Sequence[str]) -> int:
    """Make the release, and print a line for each thing that was seen to be so."""
    parser = argparse.ArgumentParser(prog="python -m lab.release", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--url", default="", help="the project's address; without it, links stay relative")
    parser.add_argument("--base", default="", help="the base of the image, with its digest; without it, one is made")
    parser.add_argument("--no-image", action="store_true", help="leave the container image out")
    given = parser.parse_args(arguments)
    started = time.monotonic()
    try:
        for line in released(given.url, given.base, with_image=not given.no_image):
            print(f"  {line}", flush=True)
    except (Refused, AssertionError, RuntimeError) as reason:
        print(f"make release: {reason}", file=sys.stderr)
        return 1
    print(f"{_STEM} is in dist/ ({time.monotonic() - started:.0f} s)")
    print(_NEXT if given.no_image else f"{_NEXT}\n{_NEXT_IMAGE}")
    return 0


def released(url: str, base: str = "", *, with_image: bool) -> Iterator[str]:
    """Make the files, and yield what was seen. What may be missing is looked for first."""
    given = builder.base_of(base) if base else None
    pythons = installed.interpreters()
    if with_image and (missing := builder.missing()):
        raise Refused(f"programs are missing. Install them: sudo apt-get install -y {' '.join(missing)}. Or IMAGE=no")
    if f"\n## [{__version__}]" not in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"):
        raise Refused(f"CHANGELOG.md has no section [{__version__}]: write it")
    if surfaces.RELEASED.read_text(encoding="utf-8") != surfaces.text_of(__version__, surfaces.current()):
        raise Refused(f"{surfaces.RELEASED.relative_to(ROOT)} is not what {__version__} has: python -m tests.surfaces")
    commit = tree.commit()
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    with tempfile.TemporaryDirectory(prefix="release-") as folder:
        source = Path(folder)
        tree.export(commit, source)
        yield f"version {__version__}, commit {commit[:12]}"
        yield _addressed(source, url)
        yield from _distributed(source, commit, pythons)
        if with_image:
            yield from (f"image: {line}" for line in image.proved(source, base))
            builder.save(image.TAG, DIST / f"{_STEM}.image.tar")
            lock.write_bill(DIST / f"{_STEM}.cdx.json", given or builder.base_of(""))
        else:
            yield "without the image and its base, as IMAGE=no says"
            lock.write_bill(DIST / f"{_STEM}.cdx.json")
        yield f"bill of materials: {_STEM}.cdx.json"
    yield f"checksums of {_write_checksums()} files: SHA256SUMS"


def _addressed(source: Path, url: str) -> str:
    """Fill in the address, and return what was done."""
    if url:
        return f"{url}: in project.urls, and {tree.fill(source, url, __version__)} links are absolute"
    links = tree.relative_links(source)
    return f"without URL: no project.urls, and {links} links stay relative, which lead nowhere on a package index"


def _distributed(source: Path, commit: str, pythons: dict[str, str]) -> Iterator[str]:
    wheel, sdist = distributions.build(source, DIST, tree.time_of(commit))
    yield f"built twice, the same bytes: {wheel.name}, {sdist.name}"
    in_wheel, in_sdist = distributions.check_contents(wheel, sdist, source, __version__)
    yield f"{in_wheel} and {in_sdist} files: gateway, config, docs and licence, and no tests"
    distributions.check(wheel, sdist)
    yield "twine check --strict and check-wheel-contents have no objection"
    for distribution in (wheel, sdist):
        yield from installed.tried(distribution, pythons, __version__)
    yield from installed.tried_as_command(wheel, [*pythons.values()][-1], __version__)


def _write_checksums() -> int:
    """Write SHA256SUMS, as ``sha256sum --check`` reads it, and return of how many files."""
    files = sorted(path for path in DIST.iterdir() if path.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (DIST / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")
    return len(files)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
