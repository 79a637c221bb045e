"""Themes from files."""

from __future__ import annotations

import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from textual.color import Color
from textual.css import stylesheet
from textual.css.parse import parse
from textual.css.stylesheet import Stylesheet
from textual.screen import ModalScreen
from textual.theme import BUILTIN_THEMES

from tests.tui.conftest import parse_rules
from workbench.model.results import CaseStatus
from workbench.store.settings import LoadedSettings, Settings, TuiSettings
from workbench.tui.app import WorkbenchApp
from workbench.tui.themes import ParsedStylesheet, ThemeChanges, load_themes, make_readable, theme_folders
from workbench.tui.widgets.key_line import say

OURS = ("dark", "light", "high_contrast", "colour_blind", "terminal")


def write_theme(folder: Path, **changes: str) -> None:
    text = (theme_folders()[0] / "dark.toml").read_text(encoding="utf-8")
    for name, value in changes.items():
        text = text.replace(f"{name} = ", f"{name} = {value} #", 1)
    folder.mkdir(exist_ok=True)
    (folder / "mine.toml").write_text(text, encoding="utf-8")


def test_all_bundled_themes_load() -> None:
    collection = load_themes(theme_folders()[:1])

    assert set(collection.themes) == set(OURS)
    assert collection.failed == ()


@pytest.mark.parametrize("name", OURS)
async def test_every_theme_draws_the_screen(
    name: str, lights: Any, make_app: Callable[..., WorkbenchApp], screen_reader: Any
) -> None:
    app = make_app(lights, Settings(tui=TuiSettings(theme=name)))

    async with app.run_test(notifications=True) as pilot:
        await pilot.press("j", "j", "question_mark", "escape", "ctrl+p", "escape")
        await pilot.pause(0.2)
        assert app.theme == name
        assert "Turn on the lamp" in screen_reader.text(app)


def test_styles_are_parsed_once_for_each_set_of_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    monkeypatch.setattr(Stylesheet, "_parse_rules", parse_rules)  # other tests parse once for all applications
    monkeypatch.setattr(
        stylesheet, "parse", lambda scope, css, *more, **named: parsed.append(css) or parse(scope, css, *more, **named)
    )
    styles = ParsedStylesheet(variables={"mine": "red"})
    styles.add_source("Label { color: $mine; }", ("one", ""))

    styles.set_variables({"mine": "red"})
    styles.reparse()
    styles.add_source("Input { color: $mine; }", ("two", ""))
    styles.reparse()
    assert [rule.styles.color for rule in styles.rules] == [Color.parse("red")] * 2
    assert len(parsed) == 2

    styles.set_variables({"mine": "blue"})
    styles.reparse()
    assert [rule.styles.color for rule in styles.rules] == [Color.parse("blue")] * 2
    assert len(parsed) == 4


def test_a_users_theme_replaces_one_of_the_same_name(tmp_path: Path) -> None:
    write_theme(tmp_path, primary='"#123456"')

    collection = load_themes((*theme_folders()[:1], tmp_path))

    assert collection.themes["dark"].primary == "#123456"


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
def test_a_broken_theme_is_reported_and_the_others_load(tmp_path: Path, changes: dict[str, str], reason: str) -> None:
    write_theme(tmp_path, **changes)

    collection = load_themes((*theme_folders()[:1], tmp_path))

    assert set(collection.themes) == set(OURS)
    assert "mine.toml" in collection.failed[0]
    assert reason in collection.failed[0]


def test_all_missing_colours_of_a_theme_are_reported_together(tmp_path: Path) -> None:
    (tmp_path / "begun.toml").write_text('name = "begun"\n', encoding="utf-8")

    (message,) = load_themes([tmp_path]).failed

    assert "missing: primary, secondary" in message


async def test_an_edited_theme_is_applied_and_its_errors_are_listed(
    lights: Any, tmp_path: Path, screen_reader: Any
) -> None:
    write_theme(tmp_path, name='"mine"')
    folders = (*theme_folders()[:1], tmp_path)
    app = WorkbenchApp(
        lights,
        settings=LoadedSettings(settings=Settings(tui=TuiSettings(theme="mine"))),
        themes=load_themes(folders),
        theme_changes=ThemeChanges(folders),
    )

    async with app.run_test(size=(140, 30)) as pilot:
        await pilot.press("exclamation_mark")
        problems = screen_reader.screen(app).state.problems
        for colour, expected in (("#zz", ["expected a colour such as"]), ("#123456", []), ("#z", ["'#z'"])):
            write_theme(tmp_path, name='"mine"', primary=f'"{colour}"')
            for _ in range(100):
                await pilot.pause(0.05)
                messages = [row.message for row in problems.rows]
                is_listed = len(messages) == len(expected) and all(map(operator.contains, messages, expected))
                if is_listed and all(text in screen_reader.text(app) for text in expected):
                    break
            assert len(messages) == len(expected)
            assert all(map(operator.contains, messages, expected))
            assert all(text in screen_reader.text(app) for text in expected)
        assert app.current_theme.primary == "#123456"


async def test_one_edited_colour_of_a_theme_changes_the_texts_of_that_colour(
    lights: Any, make: Any, screen_reader: Any, tmp_path: Path
) -> None:
    write_theme(tmp_path, name='"mine"')
    folders = (*theme_folders()[:1], tmp_path)
    lights.stored_results = {make.key("on"): [make.result(make.key("on"), CaseStatus.PASSED)]}
    app = WorkbenchApp(
        lights,
        settings=LoadedSettings(settings=Settings(tui=TuiSettings(theme="mine"))),
        themes=load_themes(folders),
        theme_changes=ThemeChanges(folders),
    )

    def shown_colours() -> set[str]:
        styles = [segment.style for strip in screen_reader.strips(app) for segment in strip]
        return {style.color.name for style in styles if style is not None and style.color is not None}

    old, new = "#6bd08a", "#00ff01"
    async with app.run_test(size=(140, 30)) as pilot:
        while "1 passed" not in screen_reader.text(app):
            await pilot.pause(0.05)
        assert old in shown_colours()
        write_theme(tmp_path, name='"mine"', success=f'"{new}"')
        while new not in shown_colours():
            await pilot.pause(0.05)
        await pilot.pause(0.1)
        assert old not in shown_colours()


async def test_a_missing_theme_is_reported_and_the_default_is_used(
    lights: Any, make_app: Callable[..., WorkbenchApp], screen_reader: Any
) -> None:
    app = make_app(lights, Settings(tui=TuiSettings(theme="drak")))

    async with app.run_test(size=(140, 30), notifications=True) as pilot:
        await pilot.pause()
        assert app.theme == "dark"
        assert "there is no theme 'drak'" in screen_reader.text(app)


def compute_luminance(name: str) -> float:
    channels = [value / 255 for value in Color.parse(name).rgb]
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def compute_contrast(one: str, other: str) -> float:
    """Return the contrast ratio of WCAG 2.2."""
    darker, lighter = sorted((compute_luminance(one), compute_luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize(
    ("name", "least"), [("dark", 4.5), ("light", 4.5), ("colour_blind", 4.5), ("high_contrast", 7.0)]
)
def test_text_has_enough_contrast(name: str, least: float) -> None:
    theme = load_themes(theme_folders()[:1]).themes[name]
    colours = [
        theme.primary,
        theme.secondary,
        theme.accent,
        theme.success,
        theme.warning,
        theme.error,
        theme.foreground,
    ]
    for colour in [*colours, theme.variables["diff-removed"], theme.variables["diff-added"]]:
        for surface in (theme.background, theme.surface, theme.panel):
            assert compute_contrast(colour or "", surface or "") >= least, (colour, surface)


@pytest.mark.parametrize("name", [name for name, theme in BUILTIN_THEMES.items() if not theme.ansi])
def test_the_colours_of_textuals_themes_are_made_readable(name: str) -> None:
    theme = BUILTIN_THEMES[name]
    variables = {**_DIFF, **theme.to_color_system().generate(), **theme.variables}

    found = make_readable(variables)

    for colour in ("foreground", "primary", "secondary", "success", "warning", "error", "text-muted", *_DIFF):
        for surface in ("background", "surface", "panel"):
            assert compute_contrast(found[colour], found[surface]) >= 4.5, (colour, surface)
    assert compute_contrast(found["border-blurred"], found["background"]) >= 2
    same = {key for key in variables if variables[key] == found[key]}
    assert {"background", "surface", "panel", "block-cursor-background"} <= same


_DIFF = {"diff-removed": "#ff7b7b", "diff-added": "#6bd08a"}
_NO_LETTERS = frozenset(" │─╭╮╰╯▌━╌┃●▁▂▃▄▅▆▇█░…·◆")


def find_faint_texts(app: WorkbenchApp) -> set[tuple[str, str, str]]:
    """Return the texts of the active screen with a contrast below 4.5, each with its colours."""
    dialogs = [widget.region for widget in app.screen.children] if isinstance(app.screen, ModalScreen) else None
    faint = set()
    for y, strip in enumerate(app.screen._compositor.render_strips()):
        x = 0
        for text, style, _ in strip:
            is_behind = dialogs is not None and not any(region.contains(x, y) for region in dialogs)
            x += cell_len(text)
            if is_behind or _NO_LETTERS.issuperset(text) or style is None:
                continue
            assert style.color is not None and style.color.triplet is not None
            assert style.bgcolor is not None and style.bgcolor.triplet is not None
            colours = style.color.triplet.hex, style.bgcolor.triplet.hex
            if compute_contrast(*colours) < 4.5 or style.dim:
                faint.add((text, *colours))
    return faint


@pytest.mark.parametrize("name", ["dark", "light", "colour_blind", "high_contrast", "nord", "gruvbox", "textual-light"])
async def test_every_text_on_the_screen_has_enough_contrast(
    name: str, lights: Any, make: Any, open_fake_app: Any
) -> None:
    given = make.turn("Turn on the lamp", "The lamp was off.", ("set_device", {"id": "stove", "status": "ON"}))
    lights.stored_results = {make.key("on"): [make.result(make.key("on"), CaseStatus.FAILED, given)]}
    async with open_fake_app(lights, size=(140, 42), settings=Settings(tui=TuiSettings(theme=name))) as screen:
        await screen.until("两盏灯", "did not pass")
        for keys in ((), ("j", "j"), ("2",), ("4",), ("escape", "slash"), ("x",)):
            await screen.press(*keys)
            await screen.pilot.pause(0.1)
            assert find_faint_texts(screen.app) == set(), keys
        for keys in (("escape", "exclamation_mark"), ("f1",), ("escape", "ctrl+p"), ("o",), ("escape",)):
            await screen.press(*keys)
            await screen.pilot.pause(0.1)
            assert find_faint_texts(screen.app) == set(), keys
        say(screen.app, "it broke", severity="error")
        await screen.until("it broke")
        assert find_faint_texts(screen.app) == set()


async def test_every_theme_is_readable_without_colours(
    lights: Any, make_app: Callable[..., WorkbenchApp], screen_reader: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    for name in load_themes(theme_folders()[:1]).themes:
        app = make_app(lights, Settings(tui=TuiSettings(theme=name)))
        async with app.run_test(size=(100, 20)) as pilot:
            await pilot.pause(0.2)
            pieces = [piece for strip in screen_reader.strips(app) for piece in strip if piece.text.strip()]

        assert pieces
        assert all(piece.style.color != piece.style.bgcolor for piece in pieces), name
