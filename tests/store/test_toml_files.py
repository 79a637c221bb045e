"""The saved layout of the screen."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.model.identity import CaseKey
from workbench.store.toml_files import Layouts, ScreenLayout

CASE = CaseKey(target="home", eval_set="a.evalset.json", eval_id="灯", occurrence=1)
LAYOUT = ScreenLayout(
    tab="trace",
    drawer="run",
    left_width=50,
    theme="light",
    folded=(("home", ""),),
    selected=("home", "a.evalset.json", CASE),
    recent=(("Cases", "home", "a.evalset.json", "灯", "1"), ("Themes", "dark")),
)


def test_a_saved_layout_is_loaded_again(tmp_path: Path) -> None:
    Layouts(tmp_path / "new" / "folder").save(tmp_path, LAYOUT)

    assert Layouts(tmp_path / "new" / "folder").load(tmp_path) == LAYOUT


def test_every_project_has_its_own_layout(tmp_path: Path) -> None:
    Layouts(tmp_path).save(tmp_path / "one", LAYOUT)

    assert Layouts(tmp_path).load(tmp_path / "other") == ScreenLayout()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"tab": 1}', b"\xff"])
def test_an_unreadable_layout_file_gives_the_default_layout(tmp_path: Path, content: bytes) -> None:
    layouts = Layouts(tmp_path)
    layouts.save(tmp_path, LAYOUT)
    next(tmp_path.glob("*.json")).write_bytes(content)

    assert layouts.load(tmp_path) == ScreenLayout()


def test_a_layout_folder_that_cannot_be_written_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    Layouts(tmp_path / "file").save(tmp_path, LAYOUT)

    assert Layouts(tmp_path / "file").load(tmp_path) == ScreenLayout()


def test_a_layout_with_half_a_character_is_not_saved(tmp_path: Path) -> None:
    layouts = Layouts(tmp_path)
    layouts.save(tmp_path, LAYOUT)

    layouts.save(tmp_path, LAYOUT.model_copy(update={"recent": (("Cases", "\udc80"),)}))

    assert layouts.load(tmp_path) == LAYOUT
