"""Ends with 0 if this machine has a kubectl that will do."""

from tests.kustomize import kubectl

raise SystemExit(kubectl() is None)
