"""``connect --write`` writes no file out of its folder, and none that more people may read than the umask allows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.unit.test_client_entries import URL, connect


@pytest.mark.parametrize("link", ["file", "folder", "file that is not there", "folder of the folder"])
@pytest.mark.parametrize("client", ["vscode", "cursor"])
def test_a_link_out_of_the_folder_is_not_followed(client: str, link: str, tmp_path: Path) -> None:
    home, outside = tmp_path / "home", tmp_path / "outside"
    home.mkdir()
    outside.mkdir()
    (outside / "mcp.json").write_text("{}")
    folder = home / (".vscode" if client == "vscode" else ".cursor")
    if link.startswith("file"):
        folder.mkdir()
        (folder / "mcp.json").symlink_to(outside / ("mcp.json" if link == "file" else "new/mcp.json"))
    else:
        folder.symlink_to(outside if link == "folder" else outside / "new")
    ran = connect(home, URL, "--client", client, "--write")
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert f"is a link out of {home}, to {outside}" in ran.stderr
    assert [path.name for path in outside.rglob("*")] == ["mcp.json"]
    assert (outside / "mcp.json").read_text() == "{}"
    named = str(outside / "mcp.json")
    assert connect(home, URL, "--client", client, "--file", named, "--write").exit_code == 0


def test_a_project_in_the_home_has_no_link_into_the_rest_of_the_home(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / ".profile").write_text("")
    (project / ".mcp.json").symlink_to(tmp_path / ".profile")
    ran = connect(project, URL, "--client", "claude-code", "--write")
    assert ran.exit_code == 2
    assert (tmp_path / ".profile").read_text() == ""


@pytest.mark.skipif(os.name != "posix", reason="modes are of POSIX")
@pytest.mark.parametrize(("umask", "file", "folder"), [(0o077, 0o600, 0o700), (0o022, 0o644, 0o755)])
def test_what_is_made_has_the_mode_that_the_umask_leaves(umask: int, file: int, folder: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        assert connect(tmp_path, URL, "--client", "vscode", "--write").exit_code == 0
    finally:
        os.umask(before)
    made = tmp_path / ".vscode" / "mcp.json"
    assert made.stat().st_mode & 0o777 == file
    assert made.parent.stat().st_mode & 0o777 == folder
    assert [*made.parent.iterdir()] == [made]
