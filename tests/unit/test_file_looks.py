"""Which files changed between two checks, however that was done."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

import pytest

from gateway.process.file_watcher import FileWatcher


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "methods.yaml"
    file.write_text("one")
    return file


def looking(seconds: float = 0.5) -> FileWatcher:
    """A watcher that looks every so many seconds of its clock."""
    return FileWatcher(count(0.0, seconds).__next__)


@pytest.fixture
def watcher(file: Path) -> FileWatcher:
    watcher = looking()
    assert watcher.changed([file]) == []
    return watcher


def settled(watcher: FileWatcher, *files: Path) -> list[Path]:
    """What two checks find: the first may fall into the middle of writing."""
    first = watcher.changed(files)
    return [*first, *watcher.changed(files)]


def test_a_file_that_nobody_touches_never_changes(watcher: FileWatcher, file: Path) -> None:
    assert settled(watcher, file) == []


def test_a_written_file_changed_once(watcher: FileWatcher, file: Path) -> None:
    file.write_text("two")
    assert settled(watcher, file) == [file]
    assert settled(watcher, file) == []


class Counted(type(Path())):  # type: ignore[misc]
    """A path that counts how often its file is read."""

    reads = 0

    def read_bytes(self) -> bytes:
        type(self).reads += 1
        return bytes(super().read_bytes())


def test_a_file_that_did_not_change_since_the_last_check_is_not_read(file: Path) -> None:
    watcher, counted = looking(), Counted(file)
    assert settled(watcher, counted) == []
    for reads, text in ((2, "two"), (3, "three")):
        file.write_text(text)
        assert settled(watcher, counted) == [file]
        for _ in range(5):
            assert watcher.changed([counted]) == []
        assert Counted.reads == reads


def test_a_file_that_was_replaced_changed(watcher: FileWatcher, file: Path) -> None:
    file.with_name("new").write_text("two")
    file.with_name("new").replace(file)
    assert settled(watcher, file) == [file]


def test_a_file_with_the_same_size_and_time_of_writing_changed(watcher: FileWatcher, file: Path) -> None:
    """Tools that keep times leave such a file."""
    before = file.stat()
    file.write_text("two")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert settled(watcher, file) == [file]


def test_a_file_that_is_touched_or_replaced_by_its_like_did_not_change(watcher: FileWatcher, file: Path) -> None:
    file.touch()
    assert settled(watcher, file) == []
    file.with_name("new").write_text("one")
    file.with_name("new").replace(file)
    assert settled(watcher, file) == []


def test_a_file_that_is_being_written_waits_for_its_end(file: Path) -> None:
    watcher = looking(0.3)
    watcher.add_new([file])
    for length in range(1, 5):
        file.write_text("two"[:length] + "." * length)
        assert watcher.changed([file]) == []
    assert [watcher.changed([file]), watcher.changed([file])] == [[], [file]]


def test_one_that_changed_in_place_counts_once_it_is_still_for_half_a_second_and_a_replaced_one_before(
    file: Path,
) -> None:
    watcher = looking(0.25)
    watcher.add_new([file])
    for text in ("t", "two"):
        file.write_text(text)
        assert [watcher.changed([file]), watcher.changed([file]), watcher.is_writing([file])] == [[], [], True]
    assert (watcher.changed([file]), watcher.is_writing([file])) == ([file], False)
    file.with_name("new").write_text("three")
    file.with_name("new").replace(file)
    assert [watcher.changed([file]), watcher.is_writing([file]), watcher.changed([file])] == [[], False, [file]]


def test_a_file_that_is_gone_did_not_change_and_one_that_is_back_did_if_it_is_another(
    watcher: FileWatcher, file: Path
) -> None:
    file.unlink()
    assert settled(watcher, file) == []
    file.write_text("one")
    assert settled(watcher, file) == []
    file.unlink()
    assert settled(watcher, file) == []
    file.write_text("two")
    assert settled(watcher, file) == [file]


def test_a_file_that_was_missing_from_the_start_changes_when_it_comes(tmp_path: Path) -> None:
    watcher, late = looking(), tmp_path / "late.yaml"
    assert settled(watcher, late) == []
    late.write_text("one")
    assert settled(watcher, late) == [late]


def test_a_file_that_never_is_still_is_read_after_five_looks(file: Path) -> None:
    watcher = looking(0.25)
    watcher.add_new([file])
    changed = []
    for number in range(12):
        file.write_text(f"{number}")
        changed.append(watcher.changed([file]))
    assert changed == [*[[]] * 5, [file], *[[]] * 5, [file]]


def test_the_configuration_waits_until_its_last_write_is_two_seconds_old(watcher: FileWatcher, file: Path) -> None:
    for text in ("h", "half", "half of it"):
        file.write_text(text)
        assert (watcher.changed([file], [file]), watcher.is_writing([file])) == ([], True)
    looks = [(watcher.changed([file], [file]), watcher.is_writing([file])) for _ in range(4)]
    assert looks == [*[([], True)] * 3, ([file], False)]


def test_a_file_of_which_a_reload_may_have_read_a_half_changes_though_it_is_again_what_it_was(
    watcher: FileWatcher, file: Path
) -> None:
    for text in ("o", "one"):
        file.write_text(text)
        if text == "o":
            watcher.distrust()
        assert watcher.changed([file]) == []
    assert watcher.changed([file]) == [file]


def test_a_file_that_is_forgotten_changes_once_without_a_change(watcher: FileWatcher, file: Path) -> None:
    watcher.forget(file)
    watcher.forget(file.with_name("unknown"))
    assert settled(watcher, file) == [file]
    assert settled(watcher, file) == []


def test_a_file_that_is_named_later_is_known_from_then_on(watcher: FileWatcher, file: Path) -> None:
    other = file.with_name("other.yaml")
    other.write_text("one")
    assert settled(watcher, file, other) == []
    other.write_text("two")
    assert settled(watcher, file, other) == [other]


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
    watcher = looking()
    assert settled(watcher, tmp_path / seen) == []
    (tmp_path / "new").symlink_to(target.format("2"))
    (tmp_path / "new").replace(tmp_path / name)
    assert settled(watcher, tmp_path / seen) == [tmp_path / seen]


def test_a_pipe_is_not_read_again(tmp_path: Path) -> None:
    """Nobody may ever write to it again, and what somebody writes is for whoever reads the configuration."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    watcher = looking()
    assert watcher.add_new([pipe])
    assert settled(watcher, pipe) == []
