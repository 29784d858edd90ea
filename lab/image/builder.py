"""Build the image with buildah, and look into what it made.

buildah runs here without a daemon and without namespaces: ``--storage-driver vfs --isolation chroot``. A machine that
reaches no registry of images gets a base of Debian's packages; :func:`make_base` makes it once, below ``.cache/``.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from gateway import __version__
from lab.image.lock import ROOT

CACHE: Final = ROOT / ".cache" / "image"
BASE_TAR: Final = CACHE / "base.tar"
BASE: Final = "localhost/python-base"
"""The base that is made here. Another one comes from a registry, and has a digest."""
_PINNED: Final = re.compile(r"(?P<name>[^\s@]+)@sha256:(?P<digest>[0-9a-f]{64})")
CERTIFICATES: Final = Path("/etc/ssl/certs/ca-certificates.crt")
_PACKAGES: Final = "python3,python3-venv,python3-pip,ca-certificates"


def buildah(*arguments: str) -> str:
    """Run buildah on the images below ``.cache/``, and return what it prints. Raise where it fails, with its words."""
    storage = ["--root", str(CACHE / "images"), "--runroot", str(CACHE / "run"), "--storage-driver", "vfs"]
    done = subprocess.run(["buildah", *storage, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"buildah {' '.join(arguments)}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout.strip()


def base_of(given: str) -> dict[str, Any]:
    """Return the base of the image as a component of a bill of materials: ``given``, which a digest pins, or, where
    that is empty, the one that is made here. Raise RuntimeError for one without a digest."""
    if not given:
        make_base()
        (layer, *_), said = layers(described(BASE)), "made here of Debian's packages; no digest pins it"
        name, digest = BASE, layer.removeprefix("sha256:")
    elif (pinned := _PINNED.fullmatch(given)) is not None:
        name, digest, said = pinned["name"], pinned["digest"], "pinned by its digest"
    else:
        raise RuntimeError(
            f"BASE={given} has no digest, so it may be another image tomorrow: write BASE=NAME@sha256:…, "
            f"which `docker buildx imagetools inspect {given}` prints"
        )
    hashes = [{"alg": "SHA-256", "content": digest}]
    description = f"the base of the image, {said}"
    return {"type": "container", "bom-ref": "base", "name": name, "hashes": hashes, "description": description}


def make_base() -> None:
    """Make an image with Python, pip and venv from Debian's packages, where there is none yet: as python:3.11-slim."""
    if not BASE_TAR.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        part = BASE_TAR.with_suffix(".part.tar")
        command = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={_PACKAGES}", "bookworm", str(part)]
        subprocess.run(command, check=True)
        part.rename(BASE_TAR)
    if BASE in buildah("images", "--format", "{{.Name}}").split():
        return
    container = buildah("from", "scratch")
    buildah("add", "--quiet", container, str(BASE_TAR))
    buildah("run", "--isolation", "chroot", container, "--", "ln", "-sf", "/usr/bin/python3", "/usr/bin/python")
    buildah("config", "--env", "PATH=/usr/local/bin:/usr/bin:/bin", container)
    buildah("commit", "--quiet", "--rm", container, BASE)


def build(tag: str, source: Path = ROOT, base: str = "") -> dict[str, Any]:
    """Build deploy/Dockerfile of the tree ``source`` on ``base``, or where that is empty on the one that is made here,
    without any cache. Return how buildah describes the image."""
    with tempfile.TemporaryDirectory(prefix="image-") as folder:
        # What this machine needs to reach its registry of packages, and no step may copy: read-only, while it builds.
        pip = Path(folder) / "pip.conf"
        pip.write_text(_pip_configuration(), encoding="utf-8")
        mounted = [f"--volume={pip}:/etc/pip.conf:ro", f"--volume={CERTIFICATES}:{CERTIFICATES}:ro"]
        arguments = ["--quiet", "--isolation", "chroot", "--network", "host", "--no-cache"]
        arguments += [f"--build-arg=BASE={base or BASE}"]
        # The format of Docker keeps HEALTHCHECK, which that of OCI has no place for.
        arguments += ["--format", "docker", "--timestamp", "0", *mounted, "--tag", tag]
        arguments += [f"--build-arg=VERSION={__version__}", f"--build-arg=REVISION={_revision()}"]
        buildah("bud", *arguments, "--file", str(source / "deploy" / "Dockerfile"), str(source))
    return described(tag)


def described(image: str) -> dict[str, Any]:
    """Return what buildah knows of an image: its configuration, its layers."""
    described = json.loads(buildah("inspect", "--type", "image", image))
    assert isinstance(described, dict)
    return described


def layers(image: dict[str, Any]) -> list[str]:
    """Return the digests of the layers, uncompressed."""
    return list(image["OCIv1"]["rootfs"]["diff_ids"])


def layer_bytes(image: dict[str, Any], base: str = "") -> int:
    """Return how many bytes the layers have that stand above the base, uncompressed."""
    own = set(layers(image)) - set(layers(described(base or BASE)))
    known = json.loads((CACHE / "images" / "vfs-layers" / "layers.json").read_text(encoding="utf-8"))
    return sum(
        {layer["diff-digest"]: layer["diff-size"] for layer in known if layer.get("diff-digest") in own}.values()
    )


@contextmanager
def unpacked(image: str) -> Iterator[Path]:
    """Yield the folder of a new container of this image."""
    container = buildah("from", image)
    try:
        yield Path(buildah("mount", container))
    finally:
        buildah("rm", container)


def save(tag: str, target: Path) -> None:
    """Write an image into a file that ``docker load`` and ``podman load`` read."""
    target.unlink(missing_ok=True)
    buildah("push", "--quiet", tag, f"docker-archive:{target}:{tag}")


def forget(*tags: str) -> None:
    """Remove images, and what only they need."""
    buildah("rmi", "--force", *tags)


def missing() -> list[str]:
    """Return the packages of Debian to install, for the programs that are not there."""
    programs = {"buildah": "buildah", "mmdebstrap": "mmdebstrap", "unshare": "util-linux", "chroot": "coreutils"}
    return [package for program, package in programs.items() if shutil.which(program) is None]


def _revision() -> str:
    """Return the commit that is checked out, "unknown" where this is no repository."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def _pip_configuration() -> str:
    """Return what pip is told on this machine and a container can follow: no path of this machine."""
    command = [sys.executable, "-m", "pip", "config", "list", "--disable-pip-version-check"]
    pairs = dict(line.split("=", 1) for line in subprocess.check_output(command, text=True).splitlines() if "=" in line)
    known = {name.split(".", 1)[1]: value.strip("'\"") for name, value in pairs.items() if name.startswith("global.")}
    index = [f"index-url = {known['index-url']}"] if known.get("index-url", "").startswith("http") else []
    trusted = [f"trusted-host = {known['trusted-host']}"] if "trusted-host" in known else []
    return "\n".join(["[global]", f"cert = {CERTIFICATES}", "timeout = 180", *index, *trusted, ""])
