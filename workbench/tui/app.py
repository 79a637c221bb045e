"""The terminal application. `run` opens it on a folder and returns the exit status."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import App, SystemCommand
from textual.binding import BindingType
from textual.screen import Screen

from workbench.model.text import neutralise
from workbench.store.discovery import find_root
from workbench.store.errors import StoreError
from workbench.store.settings import Settings, load_settings
from workbench.tui.gateway import Gateway
from workbench.tui.keymap import KEY_ACTIONS, bindings, check_keys, keys_of
from workbench.tui.screens.confirm import ConfirmScreen
from workbench.tui.screens.help import HelpScreen
from workbench.tui.screens.main import MainScreen
from workbench.tui.themes import LoadedThemes, load_themes, theme_folders, theme_problem

WRONG = 2
"""Exit status where the project could not be opened."""

_DEFAULT_THEME = "dark"


def run(path: Path) -> int:
    """Open the application on a project and return when it is closed: 0, or 2 where the project cannot be opened."""
    try:
        settings = load_settings(find_root(path)).settings
    except StoreError as error:
        return _refuse(str(error))
    # A full collection takes most of a second where a project has ten thousand cases, and no key is heard meanwhile.
    # What is garbage here dies young; results and documents live as long as the process.
    gc.set_threshold(5_000, 10, 1_000)
    gateway = Gateway(path)
    try:
        app = WorkbenchApp(gateway, settings=settings, themes=load_themes(theme_folders()))
        app.run()
    finally:
        gateway.close()
    if app.refusal is not None:
        return _refuse(app.refusal)
    return app.return_code or 0


class WorkbenchApp(App[None]):
    """One main screen, themes and keys."""

    TITLE = "workbench"
    CSS_PATH = "app.tcss"
    BINDINGS: ClassVar[list[BindingType]] = bindings("app")

    def __init__(self, gateway: Gateway, *, settings: Settings, themes: LoadedThemes) -> None:
        # Without colours Textual turns every colour into a grey, and the terminal's own all into black. As RGB they
        # have greys of their own.
        super().__init__(ansi_color=False if "NO_COLOR" in os.environ else None)
        self.refusal: str | None = None
        self._gateway = gateway
        self._main = MainScreen(gateway)
        self._keymap_in_use, key_problems = check_keys(settings.keys)
        self._problems = [*themes.failed, *key_problems]
        if (theme_fault := theme_problem(settings.tui.theme, themes)) is not None:
            self._problems.append(theme_fault)
        for theme in themes.themes.values():
            self.register_theme(theme)
        self._choose_theme(settings.tui.theme)
        self.set_keymap(self._keymap_in_use)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """The colours of differences for themes that do not name any (those that come with Textual)."""
        return {"diff-removed": "#ff7b7b", "diff-added": "#6bd08a"}

    def get_default_screen(self) -> Screen[None]:
        """The main screen."""
        return self._main

    def on_mount(self) -> None:
        """Say what is wrong with themes and keys."""
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))  # the shell has written over it
        for problem in self._problems:
            self.notify(neutralise(problem), severity="warning", markup=False, timeout=10)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """What the command palette offers: every action of the screen that makes sense now, and the themes."""
        for item in KEY_ACTIONS:
            if item.where == "screen" and "." not in item.action and screen.check_action(item.action, ()):
                yield SystemCommand(
                    item.help.capitalize(),
                    f"key {keys_of(item, self._keymap_in_use)}",
                    getattr(screen, f"action_{item.action}"),
                )
        yield SystemCommand("Theme", "Choose the colours", self.action_change_theme)
        yield SystemCommand("Help", "Show every key", self.action_help)
        yield SystemCommand("Quit", "Close workbench", self.action_quit)

    def action_help(self) -> None:
        """Show every key."""
        self.push_screen(HelpScreen(self._keymap_in_use))

    async def action_quit(self) -> None:
        """Close the application, after asking where a run is going on."""
        if not self._main.state.is_busy:
            self.exit()
            return
        self.push_screen(ConfirmScreen("A run is going on. Stop it and quit?"), self._quit_if)

    @on(MainScreen.OpenFailed)
    def _on_open_failed(self, message: MainScreen.OpenFailed) -> None:
        self.refusal = message.reason
        self.exit(return_code=WRONG)

    def _quit_if(self, yes: bool | None) -> None:
        if yes:
            self.exit()

    def _choose_theme(self, name: str) -> None:
        if name in self.available_themes:
            self.theme = name
        elif _DEFAULT_THEME in self.available_themes:
            self.theme = _DEFAULT_THEME


def _refuse(reason: str) -> int:
    print(f"workbench: {neutralise(reason)}", file=sys.stderr)
    return WRONG
