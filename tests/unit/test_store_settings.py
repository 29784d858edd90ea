"""What ``store.url`` may be, and what a shared store needs beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config.source import ConfigError, files_of, load_settings, needs_restart
from gateway.settings import Settings
from gateway.settings.store import RedisAddress, StoreSettings, parse_address
from tests.each import each
from tests.tables import each_row

GROUND = ("backend.url=http://127.0.0.1:1/jsonrpc", "auth.mode=off")


def load(*knobs: str, **environ: str) -> Settings:
    return load_settings(None, (*GROUND, *knobs), environ)


def faults(*knobs: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(*knobs)
    return "\n".join(caught.value.faults)


@each_row
def test_a_url_says_where_redis_is(url: str, address: RedisAddress) -> None:
    assert parse_address(url) == address


@each(
    "url, fault",
    [
        ("redis:", "must be memory:"),
        ("memory", "must be memory:"),
        ("http://cache", "must be memory:"),
        ("redis://", "must be memory:"),
        ("redis://a,b", "must be memory:"),
        ("redis://cache:port", "must be memory:"),
        ("redis://cache/main", "must be memory:"),
        ("redis://cache/1/2", "must be memory:"),
        ("redis://cache?db=1", "must be memory:"),
        ("redis+sentinel://a,b", "must be memory:"),
        ("redis+sentinel://a,,b/main", "must be memory:"),
        ("redis+cluster://a", "Redis Cluster is not supported"),
        ("redis://user:s3cret@cache", "must not carry a password"),
        ("redis://:s3cret@cache", "must not carry a password"),
        ("redis://s3cret@cache:port/x?y#z", "must"),
    ],
)
def test_another_url_is_a_fault_that_says_what_to_write_and_quotes_no_password(url: str, fault: str) -> None:
    text = faults(f"store.url={url}", "server.secret_file=secret")
    assert text.startswith("store.url: ")
    assert fault in text
    assert "s3cret" not in text


def test_a_shared_store_without_a_shared_secret_is_a_fault() -> None:
    assert "store.url: replicas that share a store must also share a secret" in faults("store.url=redis://cache")
    assert load("store.url=redis://cache", "server.secret_file=secret").store.is_shared
    assert not load().store.is_shared


def test_passwords_come_from_files(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("s3cret\n")
    named = {f"GATEWAY__STORE__{name}_FILE": str(tmp_path / "password") for name in ("PASSWORD", "SENTINEL_PASSWORD")}
    store = load("store.url=redis://gateway@cache", "server.secret_file=secret", **named).store
    assert (store.address.user, store.password and store.password.get_secret_value()) == ("gateway", "s3cret")
    assert "s3cret" not in repr(store)


def test_a_user_without_a_password_is_a_fault() -> None:
    assert "a user in url needs password" in faults("store.url=redis://gateway@cache", "server.secret_file=secret")


def test_the_store_is_of_the_process_and_a_reload_keeps_it() -> None:
    new = load("store.url=redis://cache", "server.secret_file=secret", "store.ca_file=/ca.pem")
    assert "store.url" in needs_restart(load(), new)
    assert ("store.ca_file", Path("/ca.pem")) in files_of(new)


def test_without_its_url_the_store_is_in_memory() -> None:
    assert StoreSettings().url == "memory:"
