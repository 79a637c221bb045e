"""The application with the tour: a panel below the panes names the next key of each step."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import work
from textual.binding import BindingType
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from workbench.store.errors import StoreError
from workbench.store.files import decode_utf8, read_bytes, write_atomic
from workbench.store.toml_files import Layouts, ScreenLayout
from workbench.tui import app
from workbench.tui.app import WorkbenchApp
from workbench.tui.dialogs.dialogs import HelpScreen
from workbench.tui.dialogs.finder_screen import FinderScreen
from workbench.tui.keys import bindings
from workbench.tui.screens.main_frame import Frame
from workbench.tui.state.text_layout import Line
from workbench.tui.state.tour import AGENT_FILE, EVAL_SET, Tour, TourChange, View, mend_agent
from workbench.tui.widgets.inputs import TypedText
from workbench.tui.widgets.key_line import say
from workbench.tui.widgets.row_lists import make_strip

if TYPE_CHECKING:
    from workbench.tui.backend.backend import Backend
    from workbench.tui.last_picture import EarlyScreen

_TICK = 0.1  # seconds between two looks at the screen
_LEAST_HEIGHT = 3  # lines: most hints fill two, and panes must not jump
_ANNOUNCEMENT = 5.0  # seconds from the words of the tour to its change of the agent


def run(path: Path, early: EarlyScreen | None = None) -> int:
    """Open the sample project with the tour; see `workbench.tui.app.run`."""
    return app.run(path, early, TourApp)


class TourPanel(Widget):
    """The step of the tour, and its keys."""

    DEFAULT_CSS = """
    TourPanel {
        height: auto;
        padding: 0 1;
        background: $boost;
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[Line] = []

    def show(self, lines: list[Line]) -> None:
        if lines != self._lines:
            is_as_high = max(len(lines), _LEAST_HEIGHT) == self.size.height
            self._lines = lines
            self.refresh(layout=not is_as_high)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002
        return max(len(self._lines), _LEAST_HEIGHT)

    def render_line(self, y: int) -> Strip:
        return make_strip(self, self._lines[y] if y < len(self._lines) else (), width=self.size.width)


class TourApp(WorkbenchApp):
    """The application with the panel. It looks at the screen several times a second, and so needs no hooks in it."""

    PLACES = (*WorkbenchApp.PLACES, "tour")
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("tour")]

    def __init__(self, backend: Backend, *, layout: ScreenLayout | None = None, **options: Any) -> None:
        super().__init__(backend, layout=layout, **options)
        self._tour = Tour(self._layout.tour)
        self._saved_name = self._tour.name
        self._saving = asyncio.Lock()
        self._panel = TourPanel()
        self._change: TourChange | None = None
        self._announced_at: float | None = None
        self._is_mending = False
        self._has_ended = False

    @property
    def layout_now(self) -> ScreenLayout:
        """The current layout, with the step of the tour."""
        return super().layout_now.model_copy(update={"tour": self._tour.name})

    def on_mount(self) -> None:
        self._looking = self.set_interval(_TICK, self._look)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide the actions of the tour when they have no effect."""
        if action == "skip_step":
            return not self._has_ended and self._tour.step is not None
        if action == "end_tour":
            return not self._has_ended
        return super().check_action(action, parameters)

    def action_skip_step(self) -> None:
        self._tour.skip()
        self._look()

    async def action_end_tour(self) -> None:
        self._has_ended = True
        self._looking.stop()
        if self._panel.is_attached:  # otherwise the key was pressed on the last picture
            await self._panel.remove()
        if self._tour.step is not None:
            say(self, "`workbench tour` continues the tour at this step")

    def _look(self) -> None:
        """Show the step that fits the screen."""
        main = self._main
        if not main.has_opened or main.state.project is None:
            return
        if not self._panel.is_attached:
            main.mount(self._panel, before="#run-line")
            return
        root = Path(main.state.project.root)
        view = self._make_view(root)
        self._tour.observe(view)
        if self._tour.name != self._saved_name:
            self._saved_name = self._tour.name
            self._save_step(root)
        if self._tour.is_about_to_change(view):
            self._change_when_announced(root)
        self._panel.show(self._tour.format(view, width=self._panel.size.width, find_key=main.state.find_key))

    def _make_view(self, root: Path) -> View:
        try:
            saved_at = (root / EVAL_SET).stat().st_mtime_ns
        except OSError:  # it is being replaced, or was removed
            saved_at = 0
        dialog = {FinderScreen: "palette", HelpScreen: "help"}.get(type(self.screen), "")
        return View.from_state(
            self._main.state,
            tab=self._main.query_one(Frame).tab,
            is_typing=isinstance(self._main.focused, TypedText),
            saved_at=saved_at,
            dialog=dialog,
            change=self._change,
        )

    @work(group="tour", description="save step")
    async def _save_step(self, root: Path) -> None:
        """Save the layout with the step, in case the terminal is closed."""
        async with self._saving:  # saves must not overtake each other
            await asyncio.to_thread(Layouts().save, root, self.layout_now)

    def _change_when_announced(self, root: Path) -> None:
        """Change the agent once the user had time to read about it."""
        if self._announced_at is None:
            self._announced_at = time.monotonic()
        elif time.monotonic() - self._announced_at >= _ANNOUNCEMENT and not self._is_mending:
            self._is_mending = True
            self._mend(root / AGENT_FILE)

    @work(group="tour", description="mend")
    async def _mend(self, path: Path) -> None:
        """Change the agent, as an editor would."""
        after = max((each.number for each in self._main.state.watch.changes), default=0)
        try:
            change = await asyncio.to_thread(_mend_file, path)
            self._change = replace(change, after=after)
        except StoreError as error:
            say(self, str(error), severity="error")
            self._tour.skip()


def _mend_file(path: Path) -> TourChange:
    """Add the line to the file of the agent. Raises StoreError if the file is not as expected."""
    data, _ = read_bytes(path)
    mended = mend_agent(decode_utf8(path, data))
    if mended is None:
        raise StoreError(path, "the line that the tour looks for is not there; `workbench tour --restart` restores it")
    source, change = mended
    if change.is_new:
        write_atomic(path, source.encode())
    return change
