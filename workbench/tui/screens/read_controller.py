"""Reads the data of the main screen: the project, its eval sets, the selected case, and stored results."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from textual.message import Message
from textual.timer import Timer
from textual.widget import Widget

from workbench.model.identity import CaseKey
from workbench.store.errors import StoreError
from workbench.store.files import get_sidecar_path
from workbench.store.settings import FILE_NAME
from workbench.tui.backend.document_calls import check_cases, find_problems
from workbench.tui.screen_context import Controller, ScreenContext, background
from workbench.tui.state.browser_list import ListedSet
from workbench.tui.state.problem_list import ProblemSource
from workbench.tui.state.project_state import OpenedProject
from workbench.tui.widgets.key_line import report_errors, say

_HELD = 0.1  # seconds; if the cursor moves faster, a key is held down
_SETTLE = 0.03  # seconds; while a key is held down, read a case only after this pause
_PATIENCE = 0.15  # seconds before the screen shows that a case is being read
_CHUNK = 1_000  # stored results that are loaded at once

_SETS = (".evalset.json", ".test.json")
_AGENTS = ("agent.py", "__init__.py", "root_agent.yaml")


class ReadController(Controller):
    """Reads data into the state, and posts a message after each step."""

    @dataclass
    class OpenFailed(Message):
        """The project could not be opened."""

        reason: str

    @dataclass
    class Opened(Message):
        """The project was opened and read completely for the first time."""

    @dataclass
    class Reread(Message):
        """The project was read again completely."""

    @dataclass
    class ProjectRead(Message):
        """The list of eval sets, or stored results, changed."""

    @dataclass
    class SetsRead(Message):
        """The cases of eval sets were read."""

    @dataclass
    class CaseRead(Message):
        """The selected case was read, or reading takes long enough to show that."""

    @dataclass
    class SelectionWanted(Message):
        """Everything was read; select this case or eval set."""

        place: CaseKey | str

    def __init__(self, widget: Widget, context: ScreenContext) -> None:
        super().__init__(widget, context)
        self.has_opened = self.has_failed = False
        self._settling: Timer | None = None
        self._requested_at = 0.0
        self._reading_addresses = asyncio.Lock()
        self._to_reread: set[tuple[str, str]] = (
            set()
        )  # kept until all are read, because a later reload replaces an earlier one

    @background(group="open")
    async def open(self) -> None:
        try:
            project = await self.backend.project.open()
        except StoreError as error:
            self.has_failed = True
            self.post_message(self.OpenFailed(str(error)))
            return
        await self._read_project(project)

    @background(group="open", exclusive=True)
    async def reload(self, select: CaseKey | str | None) -> None:
        """Read the project again, then select this case or eval set."""
        with report_errors(self.widget):
            await self._reload(select)

    @background(group="open", exclusive=True)
    async def reload_with_addresses(self) -> None:
        """Read the project again, including datasets that were read from addresses."""
        self._to_reread |= {
            each.key
            for each in self.state.browser.sets
            if each.is_address and (each.cases is not None or each.is_being_read)
        }
        with report_errors(self.widget):
            await self.backend.call(lambda workspace: workspace.recordings.forget_addresses())
            await self._reload(None)

    async def _reload(self, select: CaseKey | str | None) -> None:
        await self._read_project(await self.backend.project.reload())
        if select is not None:
            self.post_message(self.SelectionWanted(select))
        await self._reread_addresses()  # an earlier reload may have been replaced before it did this
        self.post_message(self.Reread())

    @background(group="read-again")
    async def reread_sets(self, eval_sets: frozenset[str]) -> None:
        """Read these eval sets again, and show them."""
        await self.read_sets([listed for listed in self.state.browser.sets if listed.relative in eval_sets])
        self.state.loaded_case = None
        self.read_selected()

    def reread_saved(self, paths: Collection[str], *, removed: Collection[str]) -> None:
        """Read again what these saved files define: the project, eval sets or criteria."""
        known = {listed.relative for listed in self.state.browser.file_sets}
        is_less = any(path in known or path.endswith(_AGENTS) for path in removed)
        if is_less or FILE_NAME in paths or self._may_add_agents(paths):
            self.reload(None)
        elif known.issuperset(path for path in paths if path.endswith(_SETS)):
            saved = {path for path in known if path in paths or get_sidecar_path(Path(path)).as_posix() in paths}
            if saved:
                self.reread_sets(frozenset(saved))
            elif any(path.endswith(".json") for path in paths):  # it may hold criteria
                self.reread_sets(frozenset())
        else:
            self.reload(None)

    def _may_add_agents(self, paths: Collection[str]) -> bool:
        """Return True if a set without an agent may have one now."""
        return any(path.endswith(_AGENTS) for path in paths) and not all(
            listed.target for listed in self.state.browser.file_sets
        )

    @background(group="read", exclusive=True)
    async def read_selected(self) -> None:
        """Read the case under the cursor; a later call replaces an earlier one."""
        key = self.state.selected_case
        if key is not None and not self._has_complete_case(key):
            waiting = self.widget.set_timer(_PATIENCE, lambda: self.post_message(self.CaseRead()))
            try:
                read = await self.backend.project.read_case(
                    key,
                    stored=self.state.lacks_results(key),
                    earlier=self.state.board.find_earlier_verdicts([key]),
                )
                self.state.set_loaded_case(read)
            finally:
                waiting.stop()
        self.post_message(self.CaseRead())

    def _has_complete_case(self, key: CaseKey) -> bool:
        """Return True if the case was read with its stored results."""
        read = self.state.loaded_case
        has_results = read is not None and (bool(read.stored) or not self.state.lacks_results(key))
        return self.state.has_loaded(key) and has_results

    @background(group="verdicts")
    async def read_verdicts(self, cases: Collection[CaseKey]) -> None:
        """After a run of these cases, find the current verdicts of cases that it only played."""
        await self._read_verdicts(cases)
        self.post_message(self.ProjectRead())

    def read_selected_soon(self) -> None:
        """Read the selected case, after a pause if a key is held down. A later call replaces it."""
        if self._settling is not None:
            self._settling.stop()
        now = time.monotonic()
        is_held, self._requested_at = now - self._requested_at < _HELD, now
        if is_held:
            self._settling = self.widget.set_timer(_SETTLE, self.read_selected)
        else:
            self.read_selected()

    async def read_all_sets(self) -> None:
        """Read all sets that changed."""
        await self.read_sets(self.state.browser.sets)

    @background(group="address")
    async def read_address(self, listed: ListedSet) -> None:
        """Read the rows of a remote dataset."""
        await self.read_addresses([listed.relative])

    async def read_addresses(self, eval_sets: Collection[str]) -> None:
        """Read the remote datasets of these sets that have not been read yet."""
        await self._read_matching_addresses(lambda listed: listed.can_be_fetched and listed.relative in eval_sets)

    async def _reread_addresses(self) -> None:
        """Read the addresses whose rows were shown or being read at the reload."""
        await self._read_matching_addresses(lambda listed: listed.is_address and listed.key in self._to_reread)
        self._to_reread.clear()

    async def _read_matching_addresses(self, is_wanted: Callable[[ListedSet], bool]) -> None:
        async with self._reading_addresses:  # other readers of the same rows wait here
            wanted = [each for each in self.state.browser.sets if is_wanted(each)]
            for listed in wanted:
                self.state.list_set(replace(listed, problem="", cases=None, is_being_read=True))
            self.post_message(self.SetsRead())
            for listed in wanted:
                try:
                    read = await self.backend.project.read_address(listed)
                except StoreError as error:  # no target lists it any more; the next reload shows that
                    read = replace(listed, problem=str(error), cases=None)
                if self.state.browser.get_set(*listed.key) is not None:  # otherwise it was removed meanwhile
                    self.state.list_set(read)
        if wanted:
            places = {listed.key for listed in wanted}
            await self.read_sets([each for each in self.state.browser.sets if each.key in places])
            await self._read_stored()
            self.post_message(self.ProjectRead())

    async def read_sets(self, sets: Sequence[ListedSet]) -> None:
        """Read the cases of these sets, if they changed since the last time."""
        unchecked: list[ListedSet] = []
        renamed: list[CaseKey] = []
        for listed in sets:
            read = await self.backend.project.list_set(listed)
            if self.state.browser.get_set(*listed.key) is None:
                continue  # it was removed meanwhile
            if read is not listed:
                self.state.list_set(read)
                renamed += _find_possible_renames(listed, read)
            if listed.history_run is None:
                if not await self.backend.call(partial(check_cases, eval_set=listed.relative)):
                    unchecked.append(listed)
                await self._show_problems(listed)
        self.post_message(self.SetsRead())
        if unchecked:
            self._check_sets(unchecked)
        if renamed:
            await self._read_renamed(renamed)

    async def _show_problems(self, listed: ListedSet) -> None:
        problems = await self.backend.call(partial(find_problems, eval_set=listed.relative))
        self.state.problems.set_problems_in_set(listed.relative, listed.target, problems)

    @background(group="check_sets")
    async def _check_sets(self, sets: Sequence[ListedSet]) -> None:
        """Check the rest of large sets against the rules of ADK in the background."""
        for listed in sets:
            while not await self.backend.call(partial(check_cases, eval_set=listed.relative)):
                pass
            if self.state.browser.get_set(*listed.key) is not None:
                await self._show_problems(listed)
        self.post_message(self.SetsRead())

    async def _read_project(self, project: OpenedProject) -> None:
        self.state.open(project)
        for problem in project.problems:
            say(self.widget, problem, severity="warning")
        self.post_message(self.ProjectRead())
        await self.read_sets(project.sets)
        await self._read_stored()
        self.post_message(self.ProjectRead())
        if not self.has_opened:  # by the first complete reading, because a later one replaces an earlier one
            self.has_opened = True
            await self._find_stopped_run()
            self.post_message(self.Opened())
        self.read_selected()

    async def _find_stopped_run(self) -> None:
        """Offer to resume an unfinished run of an earlier session, if all its eval sets are listed."""
        with contextlib.suppress(StoreError):  # `_read_stored` has reported it
            stopped = await self.backend.runs.find_stopped_run()
            listed = {each.relative for each in self.state.browser.file_sets}
            is_listed = stopped is not None and all(each.eval_set in listed for each in stopped.selections)
            if stopped is not None and is_listed and self.state.progress is None:
                self.state.stopped.append(stopped)
                self.post_message(self.ProjectRead())

    async def _read_stored(self) -> None:
        """Read the results of earlier sessions."""
        failure: StoreError | None = None
        try:
            stored = await self.backend.project.read_stored_jobs()
        except StoreError as error:
            say(self.widget, f"earlier results cannot be shown: {error}", severity="warning")
            stored, failure = {}, error
        self.state.problems.set_error(ProblemSource.HISTORY, failure)
        cases = list(stored)
        for start in range(0, len(cases), _CHUNK):
            self.state.load_stored({key: stored[key] for key in cases[start : start + _CHUNK]})
            await asyncio.sleep(0)
        await self._read_verdicts(cases)

    async def _read_renamed(self, cases: Iterable[CaseKey]) -> None:
        """Read the results of cases that are new in their set, if they ran under other names."""
        with contextlib.suppress(StoreError):  # the last access to the history has reported it
            stored = await self.backend.project.read_stored_jobs()
            self.state.load_stored({key: stored[key] for key in cases if key in stored})
            self.post_message(self.ProjectRead())

    async def _read_verdicts(self, cases: Iterable[CaseKey]) -> None:
        """For cases that were only played, reuse earlier verdicts that are current."""
        played = self.state.board.find_only_played(cases)
        if played:
            with contextlib.suppress(StoreError):  # the last access to the history has reported it
                self.state.reuse_verdicts(await self.backend.project.find_current_verdicts(played))


def _find_possible_renames(before: ListedSet, after: ListedSet) -> Sequence[CaseKey]:
    """Return the new cases of a set in which other cases are gone."""
    if before.cases is None or after.cases is None:
        return ()
    old, new = set(before.case_keys), after.case_keys
    return [key for key in new if key not in old] if not old.issubset(new) else ()
