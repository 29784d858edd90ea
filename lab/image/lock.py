"""Write the locks of what the image installs: ``python -m lab.image.lock``, or ``make lock``. And the bill of
materials (CycloneDX), which says the same for programs that look for weaknesses.

Every version is one of Python 3.11 to 3.13 on any platform, with the hashes of all its files, so that
``pip install --require-hashes`` installs that and nothing else. It asks the package registry.
"""

from __future__ import annotations

import json
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
TOOLS: Final = Path(__file__).parent / ".venv" / "bin"
RUNTIME: Final = ROOT / "deploy" / "requirements.txt"
BUILD: Final = ROOT / "deploy" / "requirements-build.txt"
EXTRAS: Final = ("redis", "otel")
"""The extras that are in the image."""


def project() -> dict[str, Any]:
    """Return pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def compile_lock(target: Path, *what: str, text: str | None = None) -> None:
    """Resolve ``what``, arguments of ``uv pip compile``, into the file ``target``. ``text`` is its standard input."""
    command = [str(TOOLS / "uv"), "pip", "compile", *what, "--quiet", "--universal", "--python-version", "3.11"]
    command += ["--generate-hashes", "--no-header", "--no-emit-index-url", "--upgrade", "--output-file", str(target)]
    subprocess.run(command, input=text, check=True, text=True, cwd=ROOT)
    head = "# Written by `make lock`. The image installs these, and nothing else.\n"
    target.write_text(head + target.read_text(encoding="utf-8"), encoding="utf-8")


def write_bill(target: Path, base: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Write the bill of materials from the lock, with the component ``base`` of the image where there is one, into the
    file ``target``, and return it."""
    target.parent.mkdir(exist_ok=True)
    command: list[str | Path] = [
        TOOLS / "cyclonedx-py",
        "requirements",
        RUNTIME,
        "--pyproject",
        ROOT / "pyproject.toml",
    ]
    command += ["--mc-type", "application", "--output-reproducible", "--output-file", target]
    subprocess.run(command, check=True, capture_output=True)
    bill = json.loads(target.read_text(encoding="utf-8"))
    assert isinstance(bill, dict)
    if base is not None:
        bill["components"].append(base)
        target.write_text(json.dumps(bill, indent=2) + "\n", encoding="utf-8")
    return bill


def main() -> None:
    """Write both locks, with the newest versions that pyproject.toml allows."""
    extras = [word for extra in EXTRAS for word in ("--extra", extra)]
    compile_lock(RUNTIME, "pyproject.toml", *extras)
    compile_lock(BUILD, "-", text="\n".join(project()["build-system"]["requires"]))
    print(f"wrote {RUNTIME.relative_to(ROOT)} and {BUILD.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
