"""Read the Dockerfile with hadolint and checkov, and each finished example and component of deploy/ with checkov.

A finding that stays has its reason beside it: checkov reads that from an annotation of the resource, or from a comment
of the Dockerfile. Exit code: 0 where nothing else is found.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.kustomize import rendered_text

HERE: Final = Path(__file__).parent
TOOLS: Final = HERE / ".venv" / "bin"
DEPLOY: Final = HERE.parents[1] / "deploy"
PATIENCE: Final = 300.0


def main() -> int:
    """Print a line for each file that was read, and each finding."""
    found = list(hadolint(DEPLOY / "Dockerfile"))
    with tempfile.TemporaryDirectory(prefix="lint-") as folder:
        found += checkov("dockerfile", DEPLOY / "Dockerfile", "deploy/Dockerfile")
        shutil.copytree(DEPLOY, folder, dirs_exist_ok=True)
        for recipe in sorted((DEPLOY / "kubernetes").glob("*/*/kustomization.yaml")):
            found += checkov("kubernetes", *written(Path(folder), recipe.parent.relative_to(DEPLOY)))
    print("\n".join(found) or "no finding without a reason beside it")
    return bool(found)


def written(deploy: Path, folder: Path) -> tuple[Path, str]:
    """Write what an example, or the base with a component, renders: the file, and the name to report."""
    rendering = deploy / folder
    if folder.parent.name == "components":
        rendering = deploy / "kubernetes" / f"base-and-{folder.name}"
        rendering.mkdir()
        recipe = f"namespace: mcp\nresources: [../base]\ncomponents: [../components/{folder.name}]\n"
        (rendering / "kustomization.yaml").write_text(recipe, encoding="utf-8")
    file = deploy / f"{folder.name}.yaml"
    file.write_text(rendered_text(rendering), encoding="utf-8")
    return file, f"deploy/{folder}"


def hadolint(file: Path) -> Iterator[str]:
    """Yield the findings of hadolint, of any level."""
    command: list[str | Path] = [TOOLS / "hadolint", "--format", "json", file]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    findings = json.loads(done.stdout)
    print(f"hadolint  deploy/Dockerfile: {len(findings)} findings")
    yield from (f"deploy/Dockerfile:{one['line']}: {one['code']} {one['message']}" for one in findings)


def checkov(framework: str, file: Path, name: str) -> Iterator[str]:
    """Yield the findings of checkov. Its checks are those of the package: it asks nobody."""
    command: list[str | Path] = [TOOLS / "checkov", "--file", file, "--framework", framework, "--output", "json"]
    command += ["--skip-download"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    report: dict[str, Any] = json.loads(done.stdout)
    results = report["results"]
    passed, failed, explained = (len(results[f"{kind}_checks"]) for kind in ("passed", "failed", "skipped"))
    print(f"checkov   {name}: {passed} passed, {failed} findings, {explained} explained")
    if not passed or results["parsing_errors"]:
        yield f"{name}: checkov read nothing of it: {results['parsing_errors']}"
    yield from (f"{name}: {one['resource']}: {one['check_id']} {one['check_name']}" for one in results["failed_checks"])


if __name__ == "__main__":
    sys.exit(main())
