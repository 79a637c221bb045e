"""The application: its screens, themes, keys, and the clipboard."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import select
import signal
import stat
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path, PurePath
from typing import Any, ClassVar, TextIO

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.segment import Segment
from textual import on, work
from textual.actions import parse
from textual.app import App
from textual.css.query import NoMatches
from textual.dom import DOMNode
from textual.driver import Driver
from textual.events import Event, InputEvent, Key, Resize
from textual.geometry import Region
from textual.message import Message
from textual.message_pump import MessagePump
from textual.notifications import Notify
from textual.screen import Screen
from textual.strip import Strip
from textual.theme import BUILTIN_THEMES
from textual.widget import Widget
from textual.widgets import Input, TextArea
from textual.worker import WorkerFailed, get_current_worker

from workbench.model.identity import CaseKey
from workbench.model.text import neutralise
from workbench.store.errors import StoreError
from workbench.store.files import find_root
from workbench.store.settings import FILE_NAME, LoadedSettings, load_settings
from workbench.store.toml_files import Layouts, ScreenLayout
from workbench.tui.backend.backend import Backend
from workbench.tui.backend.project_calls import find_named_files, read_settings
from workbench.tui.dialogs.dialogs import (
    SYMBOLS_OF_CASES,
    ConfirmScreen,
    HelpScreen,
    Result,
    ResultScreen,
    is_leaving,
    wait_until_built,
)
from workbench.tui.dialogs.finder_screen import FinderScreen, load_groups, make_action_item
from workbench.tui.external_editor import open_file
from workbench.tui.keys import PLACES, KeyAction, KeyHolder, KeyPlace, check_keys, find_first_key, key_action, keys_of
from workbench.tui.last_picture import ENTER_ALTERNATE, OPENING, EarlyScreen, Pictures
from workbench.tui.screen_context import RestingTimer, ScreenContext
from workbench.tui.screens.main_screen import MainScreen
from workbench.tui.screens.read_controller import ReadController
from workbench.tui.state.finder import (
    MOST_RECENT,
    Finder,
    FinderKind,
    Group,
    Item,
    make_project_groups,
    make_theme_group,
    make_tool_filter,
)
from workbench.tui.state.problem_list import ProblemSource
from workbench.tui.state.project_state import ProjectState
from workbench.tui.state.text_layout import cut_to_rows
from workbench.tui.themes import (
    LoadedThemes,
    ParsedStylesheet,
    ThemeChanges,
    load_themes,
    make_readable,
    theme_folders,
    theme_problem,
)
from workbench.tui.widgets.key_line import KeyLine, is_offered, report_errors, say
from workbench.tui.widgets.row_lists import STYLE_CLASSES

# Clipboards other than that of the terminal: the tmux buffer and the clipboard of the local machine.

_PATIENCE = 2.0  # seconds; a clipboard program may wait for a missing display
_MOST_BY_SEQUENCE = 700_000  # bytes of text; tmux drops escape sequences longer than a million characters


def copy_beside_terminal(text: str) -> None:
    """Copy a text to tmux and to the local clipboard; do nothing if neither exists. Blocks: call it from a thread."""
    if "TMUX" in os.environ:
        _copy_to_tmux(text.encode())
    import pyperclip

    with suppress(pyperclip.PyperclipException, OSError):
        pyperclip.copy(text)


def _copy_to_tmux(data: bytes) -> None:
    """Create a tmux buffer, unless tmux already created one from the escape sequence sent to the terminal."""
    with suppress(OSError, subprocess.SubprocessError):
        heard = _tmux("show-options", "-sv", "set-clipboard").strip()
        if heard != b"on" or len(data) > _MOST_BY_SEQUENCE:
            _tmux("load-buffer", "-w", "-", given=data)  # -w: to the outer terminal as well


def _tmux(*arguments: str, given: bytes = b"") -> bytes:
    done = subprocess.run(["tmux", *arguments], input=given, capture_output=True, timeout=_PATIENCE, check=False)
    return done.stdout


# The terminal application. `run` opens it on a folder and returns the exit status.

WRONG = 2
"""Exit status if the project cannot be opened."""

_DEFAULT_THEME = "dark"
# Actions and places that are useless from the palette.
_NOT_IN_PALETTE = frozenset({"palette", "palette_colon", "next_pane", "previous_pane", "rows", "lines"})
_ANYTHING = "an action, case, eval set, agent, tool, run, setting or theme"
_LONGEST_END = 30.0  # seconds to close everything after the terminal was closed
_STANDARD_INPUT = 0
_TERMINAL_SECONDS = 5.0  # seconds between two checks of the terminal
_THEME_SECONDS = 2.0  # seconds between two checks of the theme files
_BLINKING = 10.0  # seconds after a key, up to twice as many, in which the cursor blinks
_TALL = 16  # lines from which a screen has room for more than its rows
_WIDE = 100  # columns from which dialogs have a margin
_TOAST_SECONDS = 4.0
_TOAST_ROWS = 2  # on the main screen, whose problems pane lists the messages in full
_TOAST_ROWS_OF_DIALOGS = 4
_TOAST_SHARE = 0.8  # most of the width; the stylesheet says it too
_AROUND_TOAST = 3  # cells for its border and a blank on both sides
_ABOVE_TOAST = 1  # line: the header; the stylesheet says it too
_SWITCH = 0.001  # seconds that another thread may keep the interpreter while a key waits; Python allows 0.005
_MOMENT = 0.005  # seconds between two looks whether the project is open, and between two keys
_LONGEST_KEY = 1.0  # seconds for which a key waits until the one before was handled
_LONGEST_OPENING = 3.0  # seconds for which keys and the last picture wait for a project or a plan


def run(path: Path, early: EarlyScreen | None = None, app_type: type[WorkbenchApp] | None = None) -> int:
    """Open a project in the application and return the exit status: 0, or 2 if the project cannot be opened.

    `app_type` is `WorkbenchApp` or a subclass.
    """
    try:
        settings = load_settings(find_root(path))
    except StoreError as error:
        if early is not None:
            early.close()
        return _refuse(str(error))
    # A full collection blocks the keys for most of a second in a project with ten thousand cases. It finds little:
    # most garbage is young, and results and documents live as long as the process.
    gc.set_threshold(5_000, 10, 1_000)
    sys.setswitchinterval(_SWITCH)
    backend = Backend(path)
    had_terminal = os.isatty(_STANDARD_INPUT)
    try:
        layouts, folders = Layouts(), theme_folders()
        app = (app_type or WorkbenchApp)(
            backend,
            settings=settings,
            themes=load_themes(folders),
            theme_changes=ThemeChanges(folders),
            layout=layouts.load(path),
            early=early,
        )
        app.run()
    finally:
        lost = _close(backend)
        if had_terminal and not os.isatty(_STANDARD_INPUT):
            os._exit(WRONG)  # a thread of Textual may block on reading from it forever
    if lost:
        return _refuse(lost)
    if app.refusal is not None:
        return _refuse(app.refusal)
    layouts.save(path, app.layout_now)
    if app.last_picture:
        Pictures().save(path, app.last_picture, columns=app.size.width)
    if app.fault is not None:
        raise app.fault
    return app.return_code or 0


class WorkbenchApp(KeyHolder, App[None]):
    """The application: one main screen, themes and keys."""

    TITLE = "workbench"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (_WIDE, "-wide")]  # noqa: RUF012 - as in App
    VERTICAL_BREAKPOINTS = [(0, "-short"), (_TALL, "-tall")]  # noqa: RUF012 - as in App
    ENABLE_COMMAND_PALETTE = False  # `FinderScreen` replaces that of Textual
    CSS_PATH: ClassVar[list[str | PurePath]] = [
        "app.tcss",
        *(f"panes/{pane}.tcss" for pane in ("case", "diff", "trace", "scores", "history", "chat")),
        *(f"panes/{drawer}.tcss" for drawer in ("run", "watch", "problems")),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = STYLE_CLASSES
    PLACES: ClassVar[tuple[str, ...]] = ("app",)

    def __init__(
        self,
        backend: Backend,
        *,
        settings: LoadedSettings,
        themes: LoadedThemes,
        theme_changes: ThemeChanges | None = None,
        layout: ScreenLayout | None = None,
        early: EarlyScreen | None = None,
    ) -> None:
        """Without `theme_changes`, changed theme files are not reloaded. `early` is the terminal to take over."""
        # With NO_COLOR, Textual turns every colour into a grey, but all ANSI colours into black. Converted to RGB,
        # they get different greys.
        super().__init__(
            driver_class=_make_driver_class(early) if early is not None and early.is_shown else None,
            ansi_color=False if "NO_COLOR" in os.environ else None,
        )
        self._shows_last_picture = early is not None and early.is_shown
        self._opening_until = time.monotonic() + _LONGEST_OPENING
        self._visible_since = 0.0  # when the screen replaced the last picture, if one was shown
        self.last_picture: Sequence[str] = ()
        self.is_exiting = False
        self.refusal: str | None = None
        self.fault: Exception | None = None  # the exception that ended the application
        self.error_console = Console(quiet=True)  # Textual prints tracebacks with every local variable
        self._keys: deque[Key] = deque()  # that wait for the key before
        self._keys_under_way = 0  # keys that widgets have not handled yet
        self._last_key = Key("", None)  # that a widget got
        self._key_target: Widget | None = None  # of that key
        self._key_until = 0.0  # when the next key no longer waits
        self._calming: RestingTimer | None = None
        self._still: Input | TextArea | None = None  # the field whose cursor does not blink now
        self._backend = backend
        self._layout = layout or ScreenLayout()
        self._recent = self._layout.recent
        self._theme_changes = theme_changes
        wanted = settings.settings
        self._keymap_in_use, key_problems = check_keys(wanted.keys)
        state = ProjectState(partial(find_first_key, keymap=self._keymap_in_use))
        self._screen_context = ScreenContext(state, backend)
        self._main = MainScreen(self._screen_context, self._layout)
        self._settings_problems = [settings.add_location(("keys", name), text) for name, text in key_problems.items()]
        theme_fault = theme_problem(wanted.tui.theme, themes)
        if theme_fault is not None:
            self._settings_problems.append(settings.add_location(("tui", "theme"), theme_fault))
        self._problems = [*themes.failed, *self._settings_problems]
        for theme in themes.themes.values():
            self.register_theme(theme)
        self._choose_theme(self._layout.theme or "", wanted.tui.theme)
        self.stylesheet = ParsedStylesheet(variables=self.get_css_variables())
        self._styled_theme = self.current_theme
        self._configured_theme = self.theme
        self.set_keymap(self._keymap_in_use)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Return diff colours for themes that define none, such as the themes of Textual."""
        return {"diff-removed": "#ff7b7b", "diff-added": "#6bd08a"}

    def get_css_variables(self) -> dict[str, str]:
        """Return the colours of the theme; those of Textual's own themes are made readable."""
        variables = super().get_css_variables()
        theme = self.current_theme
        if theme is BUILTIN_THEMES.get(theme.name) and not theme.ansi:
            variables = self.theme_variables = make_readable(variables)
        return variables

    @property
    def layout_now(self) -> ScreenLayout:
        """The current layout, to be restored at the next start."""
        # Save a theme only if the user chose it on the screen. Otherwise the settings still decide.
        theme = self._layout.theme if self.theme == self._configured_theme else self.theme
        return self._main.layout_now.model_copy(update={"theme": theme, "recent": self._recent})

    def get_default_screen(self) -> Screen[None]:
        return self._main

    def on_mount(self) -> None:
        """Start timers and signal handlers, and report problems with themes and keys."""
        if self._shows_last_picture:
            self.set_timer(_LONGEST_OPENING, self._hide_picture)
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))  # the shell overwrote the screen
        self._calming = RestingTimer(self, _BLINKING, self._stop_blinking)
        if self._theme_changes is not None:
            self._follow_themes(self._theme_changes)
        # Immediate, because the process stops as soon as the signal is published.
        self.app_suspend_signal.subscribe(self, lambda _: self._backend.write_recovery_files(), immediate=True)
        self._quit_on_signals()
        has_terminal = None if self.is_headless else _find_terminal()
        if has_terminal is not None:
            self._quit_when_terminal_is_gone(has_terminal)
        self._list_problems(self._problems)
        for problem in self._problems:
            say(self, problem, severity="warning")

    def find_actions(self, screen: Screen[object]) -> Iterator[tuple[KeyAction, DOMNode]]:
        """Find the actions that are possible at the focus of a screen, each with the node that performs it."""
        for node in _with_keys(screen):
            for item in (item for place in _places_of(node) for item in place.actions):
                owner = _owner_of(item.action, node)
                is_useful = item.id not in _NOT_IN_PALETTE and item.where not in _NOT_IN_PALETTE
                if is_useful and owner is not None and is_offered(owner, item.action):
                    yield item, owner

    def action_help(self) -> None:
        nodes = _with_keys(self.screen)
        helps = [node.HELP for node in (self.screen.focused or self.screen).ancestors_with_self if node.HELP]
        places = [place for node in nodes for place in _places_of(node)]
        symbols = self.screen.SYMBOLS if isinstance(self.screen, ResultScreen) else SYMBOLS_OF_CASES
        self.push_screen(HelpScreen(helps, places, keymap=self._keymap_in_use, symbols=symbols))

    @dataclass
    class KeysHandled(Message):
        """All widgets have handled the keys up to this one: this message bubbles behind them."""

        last: Key

    async def on_event(self, event: Event) -> None:
        """Handle an event. A key waits for those before it, which may move the focus or open a screen."""
        if not isinstance(event, Key):
            await self._handle_event(event)
        elif event.is_forwarded:  # it bubbled up from the widget with the focus
            await self._handle_event(event)
            self._keys_under_way = max(self._keys_under_way - 1, 0)
            if not self._keys_under_way:
                self._end_keys()
        else:
            self._keys.append(event)
            if len(self._keys) == 1:
                await self._forward_keys()

    async def _forward_keys(self) -> None:
        """Forward the waiting keys, up to one that waits for those before it. A repeated key does not wait.

        While a run is planned, or the prompt of a new case opens, all keys wait, but not for long: they belong to the
        dialog or field that may open.
        """
        state = self._screen_context.state
        is_opening = (state.is_preparing_to_ask or state.is_opening_prompt) and self.screen is self._main
        is_opening = is_opening or (state.is_asked and self.focused is None)  # the dialog gets the focus a moment later
        if is_opening and self._keys and time.monotonic() < self._keys[0].time + _LONGEST_OPENING:
            self.set_timer(_MOMENT, self._forward_keys)
            return
        while self._keys and (
            not self._keys_under_way or self._keys[0].key == self._last_key.key or self._has_waited_long()
        ):
            event = self._keys.popleft()
            await self._handle_event(event)
            target = self._find_key_target()
            is_text = isinstance(target, Input | TextArea) and target.check_consume_key(event.key, event.character)
            if not isinstance(target, Input | TextArea):
                self._screen_context.state.browser.forget_lost_row()
            self._keys_under_way = 0 if is_text or target is None else self._keys_under_way + 1
            self._last_key, self._key_until = event, time.monotonic() + _LONGEST_KEY
            self._key_target = target
        target = self._find_key_target()
        if self._keys and target is not None:
            target.post_message(self.KeysHandled(self._last_key))  # a widget may stop a key, which then does not bubble
            self.set_timer(_LONGEST_KEY, self._forward_keys)  # in case that the widget with the focus was removed

    def _has_waited_long(self) -> bool:
        """Return True if the key before takes too long. A text field that keeps the focus only has much to draw."""
        is_in_field = isinstance(self._key_target, Input | TextArea) and self._find_key_target() is self._key_target
        return time.monotonic() >= self._key_until and not is_in_field

    def _find_key_target(self) -> Widget | None:
        return (self.focused or self.screen) if self.screen_stack else None

    @on(KeysHandled)
    def _on_keys_handled(self, message: KeysHandled) -> None:
        if message.last is self._last_key:  # otherwise a later key is under way
            self._end_keys()

    def _end_keys(self) -> None:
        self._keys_under_way = 0
        if self._keys:
            self.set_timer(_MOMENT, self._forward_keys)  # the focus changes, and dialogs open, a moment after their key

    async def _handle_event(self, event: Event) -> None:
        """Handle an event. Keys and mouse wait until the project is open and the screen is built.

        They are dropped after exit. Escape also removes messages.
        """
        if isinstance(event, InputEvent):
            self._blink()
            await self._wait_until_opened()
            if self._is_blind(event):
                return
            await wait_until_built(self)
            if self._exit or not self.screen_stack:
                return
            if isinstance(event, Key) and event.key == "escape":
                self._remove_messages()  # in addition to what the key does
        elif isinstance(event, Resize) and event.size != self.size:
            self._hide_picture()  # the terminal moved its text
        await super().on_event(event)

    def on_descendant_focus(self) -> None:
        """Let the cursor of a field blink for a while, also of one that got the focus without a key."""
        self._blink()

    def _blink(self) -> None:
        """Let the cursor blink for a while."""
        field, self._still = self._still, None
        if field is not None and field.has_focus:
            field.cursor_blink = True
        elif field is not None:
            field.set_reactive(type(field).cursor_blink, True)  # without starting its timer
        if self._calming is not None:
            self._calming.restart()

    def _stop_blinking(self) -> bool:
        """Show the cursor of the focused field all the time: blinking draws twice a second."""
        focused = self.focused
        if isinstance(focused, Input | TextArea) and focused.cursor_blink:
            focused.cursor_blink, self._still = False, focused
        return False

    async def _wait_until_opened(self) -> None:
        """Wait for the first reading of the project, which decides what most keys do; not for long, it may hang."""
        main = self._main
        while not (main.has_opened or main.has_failed or self.is_exiting or time.monotonic() > self._opening_until):  # noqa: ASYNC110
            await asyncio.sleep(_MOMENT)
        self._hide_picture()

    def _is_blind(self, event: InputEvent) -> bool:
        """Return True for a key or click on the last picture if the screen now shows something else."""
        is_blind = event.time < self._visible_since and not self._main.has_opened
        if is_blind and not self.is_exiting:
            say(self, "the project is still being opened; keys from before were ignored", severity="warning")
        return is_blind

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        """Keep the last picture until the project is open. Overrides a private method; Textual has no public hook.

        A version of Textual without it draws the screen over the picture at once.
        """
        if not self._shows_last_picture:
            super()._display(screen, renderable)

    @on(ReadController.CaseRead)
    def _on_case_read(self) -> None:
        if self._main.has_opened:
            self._hide_picture()

    def _hide_picture(self) -> None:
        """Replace the last picture by the screen."""
        if self._shows_last_picture:
            self._shows_last_picture, self._visible_since = False, time.monotonic()
            for screen in self.screen_stack:
                screen.refresh(layout=True)

    def exit(self, result: None = None, return_code: int = 0, message: RenderableType | None = None) -> None:
        """Exit the application, and take a picture of the main screen for the next start."""
        if self._main.is_mounted and self._main.has_opened and not return_code:
            self.last_picture = self._take_picture()
        self.is_exiting = True
        super().exit(result, return_code, message)

    def _take_picture(self) -> Sequence[str]:
        """Render the rows of the main screen, with `OPENING` in the run line."""
        compositor = getattr(self._main, "_compositor", None)  # private: Textual exports pictures as SVG only
        if compositor is None:
            return ()
        strips: list[Strip] = compositor.render_strips()
        row = self._main.query_one("#run-line").region.y
        if 0 <= row < len(strips):
            style = next((segment.style for segment in strips[row]), None)
            strips[row] = Strip([Segment(OPENING, style)]).adjust_cell_length(self.size.width, style)
        return [strip.render(self.console) for strip in strips]

    def _handle_exception(self, error: Exception) -> None:
        """Record the exception that ends the application. Overrides a private method; Textual has no public hook.

        A version of Textual without it ends with its exit code only, and errors of removed widgets end it too.
        """
        is_of_worker = isinstance(error, WorkerFailed)
        cause = error.error if isinstance(error, WorkerFailed) else error
        node = get_current_worker().node if is_of_worker else _find_active_node()
        is_ending = self.is_exiting or not self.is_running
        is_over = is_ending or (node is not None and is_leaving(node, self.screen_stack))
        if isinstance(cause, NoMatches) and is_over:
            # Ignore it: widgets are removed one by one while their parents still finish work. A screen that opens
            # while the application exits has no widgets at all.
            return
        self.fault = self.fault or error
        super()._handle_exception(error)

    async def push_screen_wait(self, screen: Screen[Result] | str, *, mode: str | None = None) -> Result | Any:
        """Show a screen and return its result. Cancel the worker if its own screen was closed."""
        if is_leaving(get_current_worker().node, self.screen_stack):
            raise asyncio.CancelledError
        return await super().push_screen_wait(screen, mode=mode)

    def action_command_palette(self) -> None:
        """Open the palette: over the main screen with everything, over another screen with its actions and themes."""
        if any(isinstance(screen, FinderScreen) for screen in self.screen_stack):
            return
        actions = {item.id: (item, owner) for item, owner in self.find_actions(self.screen)}
        names = [make_action_item(item, keys_of(item, self._keymap_in_use)) for item, _ in actions.values()]
        finder = Finder(self._recent)
        groups = [Group.from_items(FinderKind.ACTION, names), self._make_theme_group()]
        context = self._screen_context
        if self.screen is self._main:
            finder.add(*groups, *make_project_groups(context.state.browser, context.state.project))
            screen = FinderScreen(finder, placeholder=_ANYTHING, load=lambda: load_groups(context))
        else:
            finder.add(*groups)
            screen = FinderScreen(finder, placeholder="an action or a theme")

        def use(chosen: Item | None) -> None:
            if chosen is None:
                return
            others = (identity for identity in self._recent if identity != chosen.identity)
            self._recent = (chosen.identity, *islice(others, MOST_RECENT - 1))
            if chosen.kind is FinderKind.ACTION:
                item, owner = actions[chosen.key[0]]
                owner.call_next(self.run_action, item.action, owner)
            else:
                self._go_to(chosen)

        self.push_screen(screen, use)

    def _go_to(self, item: Item) -> None:
        """Go to what was chosen in the palette."""
        main = self._main
        match item.kind:
            case FinderKind.CASE:
                target, eval_set, eval_id, occurrence = item.key
                key = CaseKey(target=target, eval_set=eval_set, eval_id=eval_id, occurrence=int(occurrence))
                main.go_to_row((target, eval_set, key))
            case FinderKind.EVAL_SET:
                target, eval_set = item.key
                main.go_to_row((target, eval_set, None))
            case FinderKind.AGENT:
                main.go_to_row((item.key[0], "", None))
            case FinderKind.TOOL:
                main.list_matching(make_tool_filter(item.key[0]))
            case FinderKind.RUN:
                main.open_run(item.key[0])
            case FinderKind.THEME:
                self.theme = item.key[0]
            case _ if item.key == ("tui", "theme"):
                self._find_theme()
            case _:
                self._open_setting(item.key)

    @work(group="open_file", description="open setting")
    async def _open_setting(self, place: Sequence[str]) -> None:
        """Open the file that defines a setting at its line in the user's editor; else that of the project."""
        with report_errors(self._main):
            root, found = await self._backend.call(lambda workspace: (workspace.root, read_settings(workspace)))
            setting = next((each for each in found if each.place == tuple(place) and each.path is not None), None)
            path, line = (root / FILE_NAME, None) if setting is None else (setting.path, setting.line)
            await open_file(self._main.app, path or root / FILE_NAME, line=line)

    def _find_theme(self) -> None:
        """Open a palette of all themes."""
        finder = Finder(scope=FinderKind.THEME)
        finder.add(self._make_theme_group())
        finder.select((FinderKind.THEME.value, self.theme))
        self.push_screen(
            FinderScreen(finder, placeholder="a theme"), lambda item: None if item is None else self._go_to(item)
        )

    def _make_theme_group(self) -> Group:
        return make_theme_group(sorted(self.available_themes), self.theme)

    def copy_to_clipboard(self, text: str) -> None:
        """Copy to the clipboards of the terminal, of tmux and of the local machine."""
        text = text.encode(errors="replace").decode()  # JSON may contain a lone surrogate, which no clipboard accepts
        super().copy_to_clipboard(text)
        self.run_worker(lambda: copy_beside_terminal(text), thread=True, group="copy")

    def on_notify(self, event: Notify) -> None:
        """Log a message, and show it: in the line of keys, or by Textual as the only toast."""
        notification = event.notification
        if not self.screen_stack:  # the application is closing
            event.prevent_default()
            return
        self._main.log_message(notification.message, notification.severity)
        self.clear_notifications()
        for holder in self.screen.query("ToastHolder"):  # Textual leaves the empty ones
            holder.remove()
        line = next(iter(self.screen.query(KeyLine)), None)
        lead = f"{notification.title}: " if notification.title else ""
        width = max(int(self.size.width * _TOAST_SHARE) - _AROUND_TOAST, 1)
        rows = _TOAST_ROWS if self.screen is self._main else _TOAST_ROWS_OF_DIALOGS
        text = cut_to_rows(f"{lead}{notification.message}", width, rows=rows)
        if line is None or ((lead or notification.severity == "error") and self._has_room_for_toast(text)):
            notification.timeout = _TOAST_SECONDS
            notification.message, notification.title = text, ""
            return
        line.show_message(notification.message, notification.severity)
        event.prevent_default()

    def _has_room_for_toast(self, text: str) -> bool:
        """Return True if a toast with this text below the header covers neither the help nor a field."""
        rows = text.split("\n")
        width = max(map(cell_len, rows)) + _AROUND_TOAST
        corner = Region(self.size.width - width, _ABOVE_TOAST, width, len(rows))
        fields = (*self.screen.query(Input), *self.screen.query(TextArea))
        is_covered = any(field.region.overlaps(corner) for field in fields if field.is_on_screen)
        return not isinstance(self.screen, HelpScreen) and not is_covered

    def _remove_messages(self) -> None:
        self.clear_notifications()
        for line in self.screen.query(KeyLine):
            line.show_message("", "information")

    async def action_quit(self) -> None:
        """Quit the application. Ask first if a run is active or edits are unsaved."""
        self._quit_if_wanted()

    def action_help_quit(self) -> None:
        """Show which keys quit. Textual calls this on ctrl+c if there is nothing to copy."""
        keys = keys_of(key_action("quit"), self._keymap_in_use)
        say(self, f"{keys} closes workbench, or ctrl+q while you type (ctrl+c copies the selection)")

    @work(group="quit", exclusive=True)
    async def _quit_if_wanted(self) -> None:
        state = self._main.state
        is_busy = state.is_busy or state.is_running
        if is_busy and not await self.push_screen_wait(ConfirmScreen("A run is in progress. Stop it and quit?")):
            return
        if await self._main.may_leave():
            self.exit()

    def _quit_on_signals(self) -> None:
        """Exit on SIGTERM, or on SIGHUP when the terminal is closed; edits stay in recovery files."""
        for name, quit_now in (("SIGTERM", self.exit), ("SIGHUP", self._quit_without_terminal)):
            number = getattr(signal, name, None)
            with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):  # Windows; not the main thread
                if number is not None:
                    asyncio.get_running_loop().add_signal_handler(number, quit_now)

    @work(group="terminal", description="watch the terminal")
    async def _quit_when_terminal_is_gone(self, has_terminal: Callable[[], bool]) -> None:
        """Exit after the terminal was closed, for programs that it does not control: they get no SIGHUP."""
        while has_terminal():  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(_TERMINAL_SECONDS)
        self._quit_without_terminal()

    def _quit_without_terminal(self) -> None:
        """Exit after the terminal was closed. A timer kills the process if a thread still waits for the terminal."""
        last = threading.Timer(_LONGEST_END, os._exit, [WRONG])
        last.daemon = True
        last.start()
        self.exit()

    @on(ReadController.OpenFailed)
    def _on_open_failed(self, message: ReadController.OpenFailed) -> None:
        self.refusal = message.reason
        self.exit(return_code=WRONG)

    def _choose_theme(self, *names: str) -> None:
        """Apply the first of these themes that exists."""
        self.theme = next((name for name in (*names, _DEFAULT_THEME) if name in self.available_themes), self.theme)

    @work(group="themes", description="follow themes")
    async def _follow_themes(self, changes: ThemeChanges) -> None:
        """Reload changed theme files. An invalid file is reported, and its last valid theme stays."""
        while True:
            await asyncio.sleep(_THEME_SECONDS)
            changed = await asyncio.to_thread(changes.look)
            if changed is not None:
                self._take_themes(changed)

    def _take_themes(self, loaded: LoadedThemes) -> None:
        for theme in loaded.themes.values():
            self.register_theme(theme)
        self.refresh_css(animate=False)  # registering the current theme again does not redraw anything
        self._list_problems([*loaded.failed, *self._settings_problems])
        self._main.post_message(ReadController.ProjectRead())  # refreshes the header and the problems
        for problem in loaded.failed:
            say(self, problem, severity="warning")

    def refresh_css(self, animate: bool = True) -> None:
        """Apply changed colours. Draw all widgets, because the styles of their texts belong to the application.

        At the start nothing has changed: Textual calls this for the theme that the stylesheet was made with.
        """
        if self.current_theme == self._styled_theme:
            return
        self._styled_theme = self.current_theme
        super().refresh_css(animate)
        for screen in self.screen_stack:
            for widget in screen.walk_children(Widget):
                widget.refresh()

    def _list_problems(self, messages: Sequence[str]) -> None:
        files = find_named_files(messages, root=Path())
        self._main.state.problems.set_messages(ProblemSource.APPEARANCE, messages, files=files)


def _make_driver_class(early: EarlyScreen) -> type[Driver]:
    """Return the driver of Textual for Unix, made to take over the terminal from the early screen."""
    from textual.drivers.linux_driver import LinuxDriver

    class TakingOver(LinuxDriver):
        def __init__(self, app: App[object], **options: Any) -> None:
            super().__init__(app, **options)
            stream = getattr(self, "_file", None)  # private: the driver cannot be given its output
            if stream is not None:
                self._file = _ClosableTerminal(stream)  # type: ignore[assignment]

        def start_application_mode(self) -> None:
            super().start_application_mode()  # type: ignore[no-untyped-call]
            attributes = early.hand_over()
            if attributes is not None:
                self.attrs_before = attributes

        def write(self, data: str) -> None:
            if data != ENTER_ALTERNATE or not early.is_shown:  # entering it again would clear the picture
                super().write(data)

    return TakingOver


def _find_terminal() -> Callable[[], bool] | None:
    """Return a check whether the terminal, or the server of a browser, is still there; None if there is neither."""
    if os.isatty(_STANDARD_INPUT):
        return lambda: os.isatty(_STANDARD_INPUT)
    if stat.S_ISFIFO(os.fstat(_STANDARD_INPUT).st_mode) and hasattr(select, "poll"):
        pipe = select.poll()
        pipe.register(_STANDARD_INPUT, 0)  # no event but that the other end was closed
        return lambda: not pipe.poll(0)
    return None


class _ClosableTerminal:
    """The output of the terminal. What is written after the terminal was closed is lost.

    The thread of Textual that writes would end with the error. The event loop would then wait for it for ever.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def fileno(self) -> int:
        return self._stream.fileno()

    def write(self, text: str) -> None:
        with suppress(OSError):
            self._stream.write(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


def _find_active_node() -> MessagePump | None:
    """Return what runs now, also if it was removed: Textual has no public way. None if its private name changed."""
    try:
        from textual._context import active_message_pump
    except ImportError:
        return None
    return active_message_pump.get(None)


def _with_keys(screen: Screen[object]) -> list[DOMNode]:
    """Return the nodes with keys, from the focus outwards. Modal screens exclude the keys of the application."""
    inner: DOMNode = screen.focused or screen
    nodes = inner.ancestors_with_self
    return [node for node in nodes if _places_of(node) and not (screen.is_modal and node is screen.app)]


def _places_of(node: DOMNode) -> list[KeyPlace]:
    return [PLACES[name] for name in getattr(node, "PLACES", ())]


def _owner_of(action: str, node: DOMNode) -> DOMNode | None:
    """Return the node that performs an action of `node`: itself or an ancestor; None if the action is unavailable."""
    namespace, name, parameters = parse(action)
    nodes: Iterable[DOMNode] = (node.app,) if namespace == "app" else node.ancestors_with_self
    owner = next((each for each in nodes if hasattr(each, f"action_{name}")), None)
    return owner if owner is not None and owner.check_action(name, parameters) else None


def _close(backend: Backend) -> str:
    """Close the backend. Return an error message if unsaved edits were lost, else an empty string."""
    try:
        backend.close()
    except StoreError as error:
        return f"the unsaved edits could not be stored: {error}"
    return ""


def _refuse(reason: str) -> int:
    print(f"workbench: {neutralise(reason)}", file=sys.stderr)
    return WRONG
