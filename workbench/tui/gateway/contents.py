"""What is in the cases: what they are found by, and the hashes that tell whether their verdicts still hold.

Ten thousand cases take seconds, so they are read in short stretches, between which the gateway's thread does whatever
else is asked of it. What has been read is kept by the text of the case: an edit costs as much as the case it touches.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.store.errors import IsDataset, StoreError
from workbench.tui.gateway.datasets import contents_of_rows, revision_of
from workbench.tui.gateway.kept import ReadingKept
from workbench.tui.gateway.thread import Call
from workbench.tui.state.browser.content import CaseContent, Hashes, content_of, content_of_broken
from workbench.tui.state.browser.listed import KeptRun, ListedSet

if TYPE_CHECKING:
    from workbench.engine.set_context import SetContext
    from workbench.engine.workspace import Workspace
    from workbench.store.documents import CaseEntry, EvalSetDocument

_STRETCH = 0.015  # seconds of reading after which others have their turn


@dataclass
class _Known:
    """What was read of a set last: of which content, for which target and criteria, and of each case by its text.

    `revision` is 0 where not all of it has been read.
    """

    revision: int
    context: tuple[str, str] | None
    cases: dict[bytes, CaseContent]


class Contents:
    """The contents of cases. What cannot be read is found by its text as the file has it."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._known: dict[str, _Known] = {}
        self._judges: dict[str, tuple[str, ...]] = {}
        self._kept: dict[str, tuple[str, int]] = {}  # by kept dataset: of which run it has been read, how many rows

    def judges_of(self, eval_set: str) -> tuple[str, ...]:
        """The models that the criteria of a set ask, as far as it has been read."""
        return self._judges.get(eval_set, ())

    async def read(self, listed: ListedSet) -> AsyncIterator[Sequence[CaseContent]]:
        """The cases of a set in stretches; nothing where they are as they were when they were read last.

        Where the set changes meanwhile it ends; the set is then to be read again.
        """
        if listed.kept is not None:
            async for found in self._read_kept(listed, listed.kept):
                yield found
            return
        reading = await self._call(lambda workspace: self._begin(workspace, listed))
        while reading is not None:
            found = await self._call(lambda _, reading=reading: reading.step())  # type: ignore[misc]
            if not found:
                if reading.is_done:
                    self._known[listed.relative] = reading.known()
                return
            yield found

    async def _read_kept(self, listed: ListedSet, kept: KeptRun) -> AsyncIterator[Sequence[CaseContent]]:
        if listed.cases is None or self._kept.get(listed.relative) == (kept.run_id, len(listed.cases)):
            return
        try:
            reading = await self._call(lambda workspace: ReadingKept(workspace.history(), listed, kept))
            try:
                while found := await self._call(lambda _: reading.step(seconds=_STRETCH)):
                    yield found
            finally:
                await self._call(lambda _: reading.close())
        except StoreError:
            return  # its rows are found by their ids
        self._kept[listed.relative] = (kept.run_id, len(listed.cases))

    def _begin_rows(self, workspace: Workspace, listed: ListedSet) -> _ReadingRows | None:
        try:
            revision = revision_of(workspace, listed.relative)
            known = self._known.get(listed.relative)
            if known is not None and known.revision == revision:
                return None
            return _ReadingRows(contents_of_rows(workspace, listed), revision)
        except StoreError:
            self._known.pop(listed.relative, None)
            return None

    def _begin(self, workspace: Workspace, listed: ListedSet) -> _Reading | _ReadingRows | None:
        try:
            document = workspace.document(listed.relative)
        except IsDataset:
            return self._begin_rows(workspace, listed)
        except StoreError:
            self._known.pop(listed.relative, None)
            return None
        context = _context_of(workspace, listed, document)
        self._judges[listed.relative] = _judges_of(context)
        known = self._known.get(listed.relative)
        hashes = None if context is None else context.hashes
        if known is None or known.context != hashes:
            known = _Known(0, hashes, {})
        if known.revision == document.revision:
            return None
        # Where the reading is given up half-way, the next one goes on from there.
        self._known[listed.relative] = _Known(0, hashes, known.cases)
        return _Reading(document, listed, context, known.cases)


class _ReadingRows:
    """The rows of a dataset, which are read as they are listed: there is one stretch of them."""

    def __init__(self, found: Sequence[CaseContent], revision: int) -> None:
        self._found = found
        self._revision = revision
        self.is_done = False

    def known(self) -> _Known:
        """What to keep of it."""
        return _Known(self._revision, None, {})

    def step(self) -> Sequence[CaseContent]:
        """All rows, and nothing behind them."""
        found, self._found = self._found, ()
        self.is_done = not found
        return found


class _Reading:
    """The way through one set."""

    def __init__(
        self, document: EvalSetDocument, listed: ListedSet, context: SetContext | None, known: dict[bytes, CaseContent]
    ) -> None:
        self._document = document
        self._revision = document.revision
        self._keys = {(key.eval_id, key.occurrence): key for key in listed.keys}
        self._context = context
        self._before = known
        self._read: dict[bytes, CaseContent] = {}
        self._next = 0

    @property
    def is_done(self) -> bool:
        """Whether every case has been read, and still is what was read."""
        return self._next >= len(self._document) and self._revision == self._document.revision

    def known(self) -> _Known:
        """What to keep of it."""
        return _Known(self._revision, None if self._context is None else self._context.hashes, self._read)

    def step(self) -> Sequence[CaseContent]:
        """The next cases, as many as there is time for; nothing at the end, and where the set is another by now."""
        if self._revision != self._document.revision:
            return ()
        found: list[CaseContent] = []
        until = time.monotonic() + _STRETCH
        entries, pieces = self._document.entries, self._document.pieces_of_cases()
        while self._next < len(entries) and (not found or time.monotonic() < until):
            data, entry = pieces[self._next].data, entries[self._next]
            self._next += 1
            content = self._content(entry, data)
            if content is not None:
                self._read[data] = self._before[data] = content
                found.append(content)
        return found

    def _content(self, entry: CaseEntry, data: bytes) -> CaseContent | None:
        key = self._keys.get((entry.eval_id, entry.occurrence))
        if key is None:
            return None
        known = self._before.get(data)
        if known is not None and known.key == key:
            return known
        try:
            case = self._document.case(entry.index)
        except StoreError:
            return content_of_broken(key, data.decode())
        hashes: Hashes | None = None
        if self._context is not None:
            planned = self._context.plan(key, case)
            hashes = planned.execution_hash, planned.scoring_hash
        return content_of(key, case, hashes)


def _judges_of(context: SetContext | None) -> tuple[str, ...]:
    from workbench.engine.criteria import judge_models_of
    from workbench.engine.users import is_scripted

    if context is None:
        return ()
    models = judge_models_of(context.config)
    return tuple("a script" if is_scripted(context.target, model) else model for model in models)


def _context_of(workspace: Workspace, listed: ListedSet, document: EvalSetDocument) -> SetContext | None:
    """What a plan would judge the cases of a set by; None where there can be no plan.

    What a recorded target is judged by are its recordings, which are not read for this.
    """
    from workbench.engine.criteria import with_models
    from workbench.engine.plan import RunOptions
    from workbench.engine.set_context import SetContext
    from workbench.engine.tools import ToolPlanner
    from workbench.model.criteria import default_config
    from workbench.model.target import AgentKind
    from workbench.store.documents import load_config

    target = workspace.project.targets.get(listed.target)
    entry = next((entry for entry in workspace.project.eval_sets if entry.relative == listed.relative), None)
    if target is None or entry is None or target.kind is AgentKind.RECORDED:
        return None
    try:
        config = default_config() if entry.config is None else load_config(entry.config)
    except StoreError:
        return None
    planner = ToolPlanner(RunOptions(), model=workspace.settings.simulation.model)
    tools = planner.plan(target)
    if planner.problems:
        return None
    config = with_models(config, workspace.settings)
    return SetContext(eval_set_id=document.eval_set_id, target=target, config=config, tools=tools)
