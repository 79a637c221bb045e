"""Themes from files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.color import Color

from workbench.store.settings import LoadedSettings, Settings, TuiSettings
from workbench.tui.app import WorkbenchApp
from workbench.tui.themes import ThemeChanges, load_themes, theme_folders

OURS = ("dark", "light", "high_contrast", "colour_blind", "terminal")


def _theme(folder: Path, **changes: str) -> None:
    text = (theme_folders()[0] / "dark.toml").read_text(encoding="utf-8")
    for name, value in changes.items():
        text = text.replace(f"{name} = ", f"{name} = {value} #", 1)
    folder.mkdir(exist_ok=True)
    (folder / "mine.toml").write_text(text, encoding="utf-8")


def test_ours_all_load() -> None:
    loaded = load_themes(theme_folders()[:1])

    assert set(loaded.themes) == set(OURS)
    assert loaded.failed == ()


@pytest.mark.parametrize("name", OURS)
async def test_every_theme_draws_the_screen(
    name: str, lights: Any, make_app: Callable[..., WorkbenchApp], look: Any
) -> None:
    app = make_app(lights, Settings(tui=TuiSettings(theme=name)))

    async with app.run_test(notifications=True) as pilot:
        await pilot.press("j", "j", "question_mark", "escape", "ctrl+p", "escape")
        await pilot.pause(0.2)
        assert app.theme == name
        assert "Turn on the lamp" in look.text(app)


def test_a_users_theme_replaces_one_of_the_same_name(tmp_path: Path) -> None:
    _theme(tmp_path, primary='"#123456"')

    loaded = load_themes((*theme_folders()[:1], tmp_path))

    assert loaded.themes["dark"].primary == "#123456"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"primary": '"#12345"'}, "primary"),
        ({"error": '"blood"'}, "a colour such as"),
        ({"name": '"Bad Name"'}, "name"),
        ({"dark": '"yes"'}, "dark"),
        ({"diff-added": '"greenish"'}, "variables"),
        ({"accent": ""}, "not readable as TOML"),
        ({"accent": '"teal"\nacent = 1'}, "acent: unknown key; did you mean 'accent'?"),
    ],
)
def test_a_broken_theme_is_named_and_costs_only_itself(tmp_path: Path, changes: dict[str, str], reason: str) -> None:
    _theme(tmp_path, **changes)

    loaded = load_themes((*theme_folders()[:1], tmp_path))

    assert set(loaded.themes) == set(OURS)
    assert "mine.toml" in loaded.failed[0]
    assert reason in loaded.failed[0]


def test_all_that_a_theme_lacks_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "begun.toml").write_text('name = "begun"\n', encoding="utf-8")

    (failed,) = load_themes([tmp_path]).failed

    assert "missing: primary, secondary" in failed


async def test_a_theme_is_taken_up_as_it_is_edited_and_what_is_wrong_with_it_is_listed(
    lights: Any, tmp_path: Path, look: Any
) -> None:
    _theme(tmp_path, name='"mine"')
    folders = (*theme_folders()[:1], tmp_path)
    app = WorkbenchApp(
        lights,
        settings=LoadedSettings(settings=Settings(tui=TuiSettings(theme="mine"))),
        themes=load_themes(folders),
        theme_changes=ThemeChanges(folders),
    )

    async with app.run_test(size=(140, 30)) as pilot:
        await pilot.press("exclamation_mark")
        for colour, sought in (("#zz", "expected a colour such as"), ("#123456", "No problems"), ("#z", "'#z'")):
            _theme(tmp_path, name='"mine"', primary=f'"{colour}"')
            for _ in range(100):
                await pilot.pause(0.05)
                if sought in look.text(app):
                    break
            assert sought in look.text(app)
        assert app.current_theme.primary == "#123456"


async def test_a_theme_that_does_not_exist_is_reported_and_the_default_taken(
    lights: Any, make_app: Callable[..., WorkbenchApp], look: Any
) -> None:
    app = make_app(lights, Settings(tui=TuiSettings(theme="drak")))

    async with app.run_test(size=(140, 30), notifications=True) as pilot:
        await pilot.pause()
        assert app.theme == "dark"
        assert "there is no theme 'drak'" in look.text(app)


def _luminance(name: str) -> float:
    channels = [value / 255 for value in Color.parse(name).rgb]
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize(
    ("name", "least"), [("dark", 4.5), ("light", 4.5), ("colour_blind", 4.5), ("high_contrast", 7.0)]
)
def test_text_has_enough_contrast(name: str, least: float) -> None:
    """Check the contrast ratio of WCAG 2.2."""
    theme = load_themes(theme_folders()[:1]).themes[name]
    background = _luminance(theme.background or "")
    colours = [theme.primary, theme.secondary, theme.success, theme.warning, theme.error, theme.foreground]
    for colour in [*colours, theme.variables["diff-removed"], theme.variables["diff-added"]]:
        darker, lighter = sorted((background, _luminance(colour or "")))
        assert (lighter + 0.05) / (darker + 0.05) >= least, colour


async def test_without_colours_every_theme_can_be_read(
    lights: Any, make_app: Callable[..., WorkbenchApp], look: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    for name in load_themes(theme_folders()[:1]).themes:
        app = make_app(lights, Settings(tui=TuiSettings(theme=name)))
        async with app.run_test(size=(100, 20)) as pilot:
            await pilot.pause(0.2)
            pieces = [piece for strip in look.strips(app) for piece in strip if piece.text.strip()]

        assert pieces
        assert all(piece.style.color != piece.style.bgcolor for piece in pieces), name
