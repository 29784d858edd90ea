"""Debian's Zabbix frontend on a PostgreSQL of its own: tables of the package, and of its data what an API needs.

Usage: python zabbix.py --port N      (POST http://127.0.0.1:N/api_jsonrpc.php; user Admin, password zabbix)

It is run in an empty folder. PostgreSQL refuses to run as root, and its socket stands in a folder of its own user's.
"""

from __future__ import annotations

import argparse
import atexit
import gzip
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

SQL = Path("/usr/share/zabbix-server-pgsql")
FRONTEND = Path("/usr/share/zabbix")
# The other tables have templates: three quarters of a minute to load.
TABLES = re.compile(r"INSERT INTO (?:users|usrgrp|users_groups|role|role_rule|config|hstgrp|dbversion) ")
FAST = "-c listen_addresses= -c fsync=off -c synchronous_commit=off -c full_page_writes=off"
CONFIGURATION = """<?php
$DB['TYPE'] = 'POSTGRESQL';
$DB['SERVER'] = '{folder}';
$DB['PORT'] = '0';
$DB['DATABASE'] = 'postgres';
$DB['USER'] = 'zabbix';
$DB['PASSWORD'] = '';
$DB['SCHEMA'] = '';
$DB['ENCRYPTION'] = false;
$DB['DOUBLE_IEEE754'] = true;
"""


def statements() -> Iterator[str]:
    """Yield the SQL of the database."""
    yield "SET session_replication_role = replica;\n"  # no foreign keys: some of the rows that they name are left out
    yield gzip.decompress((SQL / "schema.sql.gz").read_bytes()).decode()
    with gzip.open(SQL / "data.sql.gz", "rt", encoding="utf-8") as lines:
        yield from filter(TABLES.match, lines)


def start_database(programs: Path) -> Path:
    """Return the folder with the socket of a new database."""
    user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    folder = Path(subprocess.run([*user, "mktemp", "-d"], check=True, capture_output=True, text=True).stdout.strip())
    data = f"--pgdata={folder / 'data'}"
    quick = {"check": True, "stdout": subprocess.DEVNULL}
    subprocess.run([*user, programs / "initdb", data, "-U", "zabbix", "-A", "trust", "--no-sync"], **quick)
    start = [*user, programs / "pg_ctl", data, "-w", f"--log={folder / 'log'}", "-o", f"-k {folder} {FAST}", "start"]
    subprocess.run(start, **quick)

    def stop() -> None:
        subprocess.run([*user, programs / "pg_ctl", data, "--mode=immediate", "stop"], **quick)
        shutil.rmtree(folder)

    atexit.register(stop)
    load = ["psql", "-q", "-1", "-v", "ON_ERROR_STOP=1", "-h", folder, "-U", "zabbix", "postgres"]
    subprocess.run(load, input="".join(statements()), text=True, **quick)
    return folder


def end(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


def main(port: int) -> None:
    signal.signal(signal.SIGTERM, end)
    folder = start_database(max(Path("/usr/lib/postgresql").glob("*/bin")))
    # Debian's names the configuration of the whole machine, so a copy names another.
    shutil.copytree(FRONTEND, "www", ignore=shutil.ignore_patterns("assets", "audio", "locale", "local"))
    Path("zabbix.conf.php").write_text(CONFIGURATION.format(folder=folder))
    reader = Path("www/include/classes/core/CConfigFile.php")
    reader.write_text(
        reader.read_text().replace("/etc/zabbix/zabbix.conf.php", str(Path("zabbix.conf.php").absolute()))
    )
    subprocess.run(["php", "-d", "display_errors=stderr", "-S", f"127.0.0.1:{port}", "-t", "www"], check=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    main(parser.parse_args().port)
