"""What tests cost is told and bounded, and so is the time that they may take (tests/costs.py)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.waiting import PATIENCE

ROOT: Final = Path(__file__).parents[2]
BUSY: Final = """
import subprocess, sys, time

import pytest

def burn():
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass

BURN = "import time\\nwhile time.process_time() < 0.2: pass\\n"

@pytest.fixture(scope="module")
def prepared():
    burn()

@pytest.fixture
def cleaned():
    yield
    burn()

@pytest.fixture(scope="module")
def service():
    program = BURN + "print(flush=True); input()"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-IS", "-c", program], stdin=pipe, stdout=pipe) as process:
        yield process
        process.communicate(b"end")

def test_own(): burn()
def test_set_up(prepared): pass
def test_clean_up(cleaned): pass
def test_child(): subprocess.run([sys.executable, "-IS", "-c", BURN], check=True)
def test_child_that_goes_on(service): service.stdout.readline()
def test_cheap(service): pass
"""
DEAR: Final = ["own", "set_up", "clean_up", "child", "child_that_goes_on"]


def run_inner(*arguments: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "tests.costs", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=os.environ | environ, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def measured(folder: Path, *arguments: str, name: str = "test_busy.py") -> subprocess.CompletedProcess[str]:
    """Run the tests above in a file of this name, without a plugin that the environment brings."""
    file = folder / name
    file.write_text(BUSY)
    alone = ("-c", os.devnull, "--rootdir", folder, "-p", "xdist.plugin")
    return run_inner(*alone, *arguments, file, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")


def test_tests_that_cost_more_than_allowed_are_named_and_fail_the_run_of_two_workers(tmp_path: Path) -> None:
    ran = measured(tmp_path, "-n", "2", "--dist", "loadfile", "--most-seconds", "0.15")
    assert ran.returncode == pytest.ExitCode.TESTS_FAILED, ran.stderr
    named = re.findall(r"more than 0.15 s of processor time: test_busy.py::test_(\w+)", ran.stdout)
    assert sorted(named) == sorted(DEAR)
    assert re.search(r"collection: \d+\.\d s, \d+\.\d s of processor time, one figure for each worker", ran.stdout)


def test_without_a_limit_nobody_is_named(tmp_path: Path) -> None:
    ran = measured(tmp_path)
    assert ran.returncode == pytest.ExitCode.OK, ran.stdout
    assert "processor" not in ran.stdout


def test_a_long_file_may_cost_more_and_is_in_the_list_all_the_same(tmp_path: Path) -> None:
    ran = measured(tmp_path, "--most-seconds", "0.15", name="long_busy.py")
    assert ran.returncode == pytest.ExitCode.OK, ran.stdout
    listed = re.findall(r"^ +(\d+\.\d\d)  long_busy.py::test_(\w+)", ran.stdout, re.MULTILINE)
    assert {name for cost, name in listed if float(cost) > 0.15} == set(DEAR)


PATIENT: Final = """
import threading
import pytest

def for_ever():
    threading.Event().wait()

@pytest.fixture(scope="module")
def does_not_start():
    for_ever()

@pytest.fixture(scope="session")
def does_not_end():
    yield
    for_ever()

def test_usual(): pass
@pytest.mark.timeout(2)
def test_set_up(does_not_start): pass
@pytest.mark.timeout(2)
def test_clean_up(does_not_end): pass
"""
TOLD: Final = """
def pytest_timeout_set_timer(item, settings):
    print("may take", item.name, settings.timeout)
"""


def test_the_time_of_a_test_counts_its_fixtures_and_is_longer_in_long_files(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(TOLD)
    (tmp_path / "test_patient.py").write_text(PATIENT)
    (tmp_path / "long_one.py").write_text("def test_long(): pass")
    files = (tmp_path / "long_one.py", tmp_path / "test_patient.py")  # the last test ends what the session has
    ran = run_inner("-c", ROOT / "pyproject.toml", "--rootdir", tmp_path, "-s", "-p", "no:xdist", *files)
    told = dict(re.findall(r"may take test_(\w+) (\d+)", ran.stdout))
    assert told == {"usual": "120", "long": "300", "set_up": "2", "clean_up": "2"}, ran.stderr
    errors = re.findall(r"ERROR at (\w+) of test_(\w+)", ran.stdout)
    assert errors == [("setup", "set_up"), ("teardown", "clean_up")], ran.stdout
    # On CI pytest says it in the summary, too.
    assert len(re.findall(r"^E +Failed: Timeout \(>2\.0s\)", ran.stdout, re.MULTILINE)) == len(errors), ran.stdout


def test_a_wait_ends_before_the_time_of_its_test_is_over(pytestconfig: pytest.Config) -> None:
    assert pytestconfig.getini("timeout_func_only") is False
    assert float(pytestconfig.getini("timeout")) > PATIENCE
