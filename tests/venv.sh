#!/usr/bin/env bash
# Makes a virtual environment, installing Debian's python3-venv where its python lacks the module.
#
# Usage: tests/venv.sh PYTHON DIRECTORY
set -euo pipefail
python=$1 directory=$2

say() { echo "tests/venv.sh: $*" >&2; }

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
  say "$("$python" --version) is too old, the gateway needs 3.11 or newer. Name another: make PYTHON=python3.12 ..."
  exit 1
fi
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    say "this python has no venv module. Install it, for example: sudo apt-get install -y python3-venv"
    exit 1
  fi
  say "installing python3-venv ..."
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv >/dev/null
fi
# A directory that a broken attempt left behind would be taken for whole.
rm -rf "$directory"
"$python" -m venv "$directory"
