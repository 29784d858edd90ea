"""Which files changed between two looks, however that was done."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gateway.reloading import Looks


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "methods.yaml"
    file.write_text("one")
    return file


@pytest.fixture
def looks(file: Path) -> Looks:
    looks = Looks()
    assert looks.changed([file]) == []
    return looks


def settled(looks: Looks, *files: Path) -> list[Path]:
    """What two looks find: the first may fall into the middle of writing."""
    first = looks.changed(files)
    return [*first, *looks.changed(files)]


def test_a_file_that_nobody_touches_never_changes(looks: Looks, file: Path) -> None:
    assert settled(looks, file) == []


def test_a_written_file_changed_once(looks: Looks, file: Path) -> None:
    file.write_text("two")
    assert settled(looks, file) == [file]
    assert settled(looks, file) == []


def test_a_file_that_was_replaced_changed(looks: Looks, file: Path) -> None:
    file.with_name("new").write_text("two")
    file.with_name("new").replace(file)
    assert settled(looks, file) == [file]


def test_a_file_with_the_same_size_and_time_of_writing_changed(looks: Looks, file: Path) -> None:
    """As tools leave it that keep times."""
    before = file.stat()
    file.write_text("two")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert settled(looks, file) == [file]


def test_a_file_that_is_touched_or_replaced_by_its_like_did_not_change(looks: Looks, file: Path) -> None:
    file.touch()
    assert settled(looks, file) == []
    file.with_name("new").write_text("one")
    file.with_name("new").replace(file)
    assert settled(looks, file) == []


def test_a_file_that_is_being_written_waits_for_its_end(looks: Looks, file: Path) -> None:
    for length in range(1, 5):
        file.write_text("two"[:length] + "." * length)
        assert looks.changed([file]) == []
    assert looks.changed([file]) == [file]


def test_a_file_that_is_gone_did_not_change_and_one_that_is_back_did_if_it_is_another(looks: Looks, file: Path) -> None:
    file.unlink()
    assert settled(looks, file) == []
    file.write_text("one")
    assert settled(looks, file) == []
    file.unlink()
    assert settled(looks, file) == []
    file.write_text("two")
    assert settled(looks, file) == [file]


def test_a_file_that_was_missing_from_the_start_changes_when_it_comes(tmp_path: Path) -> None:
    looks, late = Looks(), tmp_path / "late.yaml"
    assert settled(looks, late) == []
    late.write_text("one")
    assert settled(looks, late) == [late]


def test_a_file_that_is_named_later_is_known_from_then_on(looks: Looks, file: Path) -> None:
    other = file.with_name("other.yaml")
    other.write_text("one")
    assert settled(looks, file, other) == []
    other.write_text("two")
    assert settled(looks, file, other) == [other]


@pytest.mark.parametrize("link", ["the file", "its folder", "a folder above", "a link to a link"])
def test_a_link_on_the_way_that_leads_elsewhere_is_a_change(tmp_path: Path, link: str) -> None:
    for version in ("1", "2"):
        (tmp_path / version / "deep").mkdir(parents=True)
        (tmp_path / version / "deep" / "methods.yaml").write_text(version)
    way = {
        "the file": ("methods.yaml", "{}/deep/methods.yaml", "methods.yaml"),
        "its folder": ("current", "{}/deep", "current/methods.yaml"),
        "a folder above": ("current", "{}", "current/deep/methods.yaml"),
        "a link to a link": ("..data", "{}/deep", "methods.yaml"),
    }[link]
    name, target, seen = way
    (tmp_path / name).symlink_to(target.format("1"))
    if link == "a link to a link":
        (tmp_path / "methods.yaml").symlink_to("..data/methods.yaml")
    looks = Looks()
    assert settled(looks, tmp_path / seen) == []
    (tmp_path / "new").symlink_to(target.format("2"))
    (tmp_path / "new").replace(tmp_path / name)
    assert settled(looks, tmp_path / seen) == [tmp_path / seen]


def test_a_pipe_is_not_read_again(tmp_path: Path) -> None:
    """Nobody may ever write to it again, and what somebody writes is for whoever reads the configuration."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    looks = Looks()
    assert looks.learn([pipe])
    assert settled(looks, pipe) == []
