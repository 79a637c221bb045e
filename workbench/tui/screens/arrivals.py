"""What the watch and the runs have told, taken up now and then and shown: it may be more than anybody could see."""

from __future__ import annotations

import time
from collections.abc import Collection

from textual.screen import Screen

from workbench.store.settings import FILE_NAME
from workbench.tui.panes.browser import BrowserPane
from workbench.tui.screens.reader import Reader
from workbench.tui.screens.running import Running
from workbench.tui.screens.shown import Shown
from workbench.tui.screens.watching import Watching
from workbench.tui.state.project import ProjectState

_ROUNDS = 10  # in which what the watch and its runs told is taken at one time
_SETS = (".evalset.json", ".test.json")
_AGENTS = ("agent.py", "__init__.py", "root_agent.yaml")


class Arrivals:
    """Takes up what has arrived for the main screen. `take` is for a timer."""

    def __init__(
        self,
        screen: Screen[None],
        state: ProjectState,
        *,
        watching: Watching,
        runs: Running,
        reader: Reader,
        shown: Shown,
    ) -> None:
        self._screen = screen
        self._state = state
        self._watching = watching
        self._runs = runs
        self._reader = reader
        self._shown = shown

    def take(self) -> None:
        """Take what arrived since the last time and show it."""
        now = time.monotonic()
        told = self._watching.take(now=now)
        is_news, changed = self._runs.take(now=now)
        for _ in range(_ROUNDS if told.has_more else 0):
            told = told.and_then(self._watching.take(now=now))
            _, more = self._runs.take(now=now)
            changed |= more
        is_news, changed = is_news or told.is_news, changed | told.changed
        if told.saved:
            self._read_saved(told.saved, gone=told.gone)
        if changed or told.is_news:
            self._screen.query_one(BrowserPane).results_changed()
        if is_news:
            self._shown.show()
            if told.is_news or self._state.shows_other_than_a_case or self._state.selected_case in changed:
                self._shown.show_detail()
        elif self._state.is_running:
            self._shown.show_run()
        if is_news or self._state.is_running:
            self._shown.show_drawer()

    def _read_saved(self, paths: Collection[str], *, gone: Collection[str]) -> None:
        """Files were saved that say what there is or what it is judged by: show what they say now."""
        known = {listed.relative for listed in self._state.browser.files}
        is_less = any(path in known or path.endswith(_AGENTS) for path in gone)
        if is_less or FILE_NAME in paths or self._may_get_agents(paths):
            self._reader.reload(None)
        elif known.issuperset(path for path in paths if path.endswith(_SETS)):
            if not known.isdisjoint(paths):
                self._reader.read_again(frozenset(known.intersection(paths)))
            elif any(path.endswith(".json") for path in paths):  # criteria, it may be
                self._reader.read_again(frozenset())
        else:
            self._reader.reload(None)

    def _may_get_agents(self, paths: Collection[str]) -> bool:
        """Whether a set that had no agent may have one now."""
        return any(path.endswith(_AGENTS) for path in paths) and not all(
            listed.target for listed in self._state.browser.files
        )
