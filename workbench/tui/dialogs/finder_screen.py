"""The palette: a dialog that finds actions, cases and everything else that one can go to."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Static

from workbench.store.errors import StoreError
from workbench.tui.backend.project_calls import read_settings
from workbench.tui.dialogs.dialogs import Dialog
from workbench.tui.keys import KeyAction
from workbench.tui.screen_context import ScreenContext
from workbench.tui.state.finder import (
    Finder,
    FinderKind,
    Group,
    Item,
    make_run_group,
    make_setting_group,
    make_tool_group,
)
from workbench.tui.widgets.inputs import FilterInput
from workbench.tui.widgets.key_line import KeyLine
from workbench.tui.widgets.row_lists import PickList, RowList

_SLICE = 0.008  # seconds of searching between two looks at the keys
_PREVIEW = 0.08  # seconds for which the cursor rests on a theme before the screen takes it
_TOOLS_AT_ONCE = 1_000  # cases
_SHORT_PLACEHOLDER = "letters of any name"
_LOW = 14
"""Screens with fewer rows are filled by the dialog, without margins."""

Load = Callable[[], AsyncIterator[Group]]
"""Reads groups that are not known when the dialog opens."""


class FinderScreen(Dialog[Item | None]):
    """Lists what matches the typed letters. The result is the chosen item, or None if the user cancels.

    A theme is previewed while the cursor is on it; the caller keeps it, cancelling restores the earlier one.
    """

    HELP: ClassVar[str] = (
        "Finds actions that are possible here, cases, eval sets, agents, tools, runs, settings and themes. Type some "
        "of the letters in their order; the starts of words count most. Without letters, it lists what you chose "
        "last, then the actions."
    )
    PLACES = ("finder",)

    def __init__(self, finder: Finder, *, placeholder: str, load: Load | None = None) -> None:
        super().__init__()
        self._finder = finder
        self._placeholder = placeholder
        self._load = load
        self._theme = ""  # before the preview; empty when it has ended
        self._preview: Timer | None = None

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog", id="finder"):
            yield FilterInput(self._placeholder, self._follow_text)
            yield PickList()
            yield Static(Content(""), id="finder-detail")
            yield KeyLine(enter="open")

    def on_mount(self) -> None:
        self._theme = self.app.theme
        self.query_one(FilterInput).focus()
        self._search()
        if self._load is not None:
            self._add_groups(self._load)

    def on_unmount(self) -> None:
        """End a preview if the application ends meanwhile."""
        self._end_preview()

    def on_resize(self) -> None:
        """In a low terminal, use the rows of the frame for the items."""
        self.query_one("#finder").set_class(self.size.height < _LOW, "-low")
        is_room = self.size.width > len(self._placeholder) + 5  # for the frame
        self.query_one(FilterInput).placeholder = self._placeholder if is_room else _SHORT_PLACEHOLDER
        self.call_after_refresh(self._show_detail)

    def _follow_text(self, text: str) -> None:
        self._finder.search(text)
        self._search()

    @on(FilterInput.Moved)
    def _on_moved(self, message: FilterInput.Moved) -> None:
        self._finder.move(message.by or message.pages * self.query_one(PickList).page_size)
        self._show()

    @on(RowList.Steered)
    def _on_steered(self, message: RowList.Steered) -> None:
        message.steer(self._finder)
        self._show()

    @on(FilterInput.Submitted)
    @on(RowList.Entered)
    def _on_entered(self) -> None:
        self._finder.finish()
        item = self._finder.selected_item
        if item is not None:
            if item.kind is not FinderKind.THEME:
                self._end_preview()
            self._theme = ""
            self.dismiss(item)

    def action_close(self) -> None:
        self._end_preview()
        self.dismiss(None)

    def _search(self) -> None:
        """Search for the typed text: at once if that is quick, else between the keys."""
        self.workers.cancel_group(self, "search")
        if self._finder.step(_SLICE):
            self._show()
        else:
            self._continue_search()

    @work(group="search", exclusive=True)
    async def _continue_search(self) -> None:
        while not self._finder.step(_SLICE):  # noqa: ASYNC110 - the search itself takes the time
            await asyncio.sleep(0)
        self._show()

    @work(group="load", description="add groups")
    async def _add_groups(self, load: Load) -> None:
        async for group in load():
            self._finder.add(group)
            self._search()

    def _show(self) -> None:
        self.query_one(PickList).show(self._finder)
        self._show_detail()
        if self._preview is not None:
            self._preview.stop()
        item = self._finder.selected_item
        wanted = item.key[0] if item is not None and item.kind is FinderKind.THEME else self._theme
        if self._theme and wanted != self.app.theme:
            self._preview = self.set_timer(_PREVIEW, lambda: self._take_theme(wanted))

    def _show_detail(self) -> None:
        """Show the detail of the selected item below the list, if its row cuts it."""
        detail = self._finder.find_cut_detail(self.query_one(PickList).size.width)
        self.query_one("#finder-detail", Static).update(Content(detail))

    def _take_theme(self, name: str) -> None:
        if self._theme:  # otherwise the preview has ended
            self.app.theme = name

    def _end_preview(self) -> None:
        """Restore the theme before the preview."""
        self._take_theme(self._theme)
        self._theme = ""


def make_action_item(action: KeyAction, keys: str) -> Item:
    """Make the item of an action. Its label is its name in `[keys]`, without the place."""
    label = action.id.removeprefix(f"{action.where}_").replace("_", " ")
    return Item(FinderKind.ACTION, (action.id,), label, "" if action.help == label else action.help, keys)


async def load_groups(context: ScreenContext) -> AsyncIterator[Group]:
    """Read the groups that take time: settings, tools and runs. What cannot be read is among the problems already."""
    backend = context.backend
    with suppress(StoreError):
        settings, root = await backend.call(lambda workspace: (read_settings(workspace), str(workspace.root)))
        yield make_setting_group(settings, root)
    counts: Counter[str] = Counter()
    called = context.state.browser.list_called_tools()
    for start in range(0, len(called), _TOOLS_AT_ONCE):
        for names in called[start : start + _TOOLS_AT_ONCE]:
            counts.update(names)
        await asyncio.sleep(0)
    yield make_tool_group(counts)
    with suppress(StoreError):
        yield make_run_group(await backend.history.read_newest_runs())
