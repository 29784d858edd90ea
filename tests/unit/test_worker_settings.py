"""What ``server.workers`` needs, and what workers divide."""

from __future__ import annotations

import pytest

from gateway.cli import report
from gateway.config.source import ConfigError, load_settings
from gateway.settings import Settings, worker_faults
from tests.each import each

GROUND = ("backend.url=http://127.0.0.1:1/jsonrpc", "auth.mode=off", "server.workers=4")
SHARED = ("store.url=redis://cache", "server.secret_file=secret")


def load(*knobs: str) -> Settings:
    return load_settings(None, (*GROUND, *knobs), {})


def test_workers_divide_connections_and_memory_and_have_at_least_one_of_each() -> None:
    settings = load(*SHARED, "server.max_connections=10", "backend.connections=7")
    assert settings.server.share(settings.server.max_connections) == 2
    assert settings.by_mount[""].connections == 1


def test_check_says_what_workers_divide() -> None:
    (line,) = report.workers(load(*SHARED).server)
    assert line.startswith("workers      4, which divide server.max_connections,")
    assert list(report.workers(load(*SHARED, "server.workers=1").server)) == []


@each(
    "knobs, fault",
    [
        ((), "server.workers: several need a store that they share: set store.url to redis://host:6379/0, or"),
        ((*SHARED, "backend.connections=3"), "server.workers: is more than backend.connections, which the workers"),
        ((*SHARED, "server.max_buffered=8MiB", "backend.max_response=4MiB"), "server.max_buffered: is divided among 4"),
        (("server.workers=0",), "server.workers: "),
    ],
)
def test_what_workers_cannot_do_without_is_a_fault(knobs: tuple[str, ...], fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(*knobs)
    assert any(one.startswith(fault) for one in caught.value.faults), caught.value.faults


def test_elsewhere_than_on_linux_several_workers_are_a_fault_with_a_remedy() -> None:
    (fault,) = worker_faults(load(*SHARED), "darwin")
    assert fault.startswith("server.workers: several need Linux")
    assert "set it to 1" in fault
    assert list(worker_faults(load(*SHARED), "linux")) == []
    assert list(worker_faults(load(*SHARED, "server.workers=1"), "darwin")) == []
