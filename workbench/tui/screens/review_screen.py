"""The review of cases that did not pass: each is accepted, skipped, or edited."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.app import ComposeResult
from textual.message import Message

from workbench.engine.acceptance import Hunk, explain_refusal, find_hunks
from workbench.model.evalset import EvalCase
from workbench.model.identity import CaseKey
from workbench.model.results import CaseResult, CaseStatus
from workbench.tui.dialogs.dialogs import Dialog
from workbench.tui.panes.diff_pane import DiffKeys, DiffView, HunkAcceptor
from workbench.tui.screen_context import DocumentsChanged, ScreenContext
from workbench.tui.state.browser_state import LoadedCase
from workbench.tui.state.diff_lines import DiffSource
from workbench.tui.state.diff_state import ReviewWalk
from workbench.tui.state.project_state import find_edit_obstacle
from workbench.tui.state.text_layout import BLANK, Block, Paragraph, Style, safe, safe_line
from workbench.tui.widgets.key_line import KeyLine, StatusLine, report_errors, say

if TYPE_CHECKING:
    from workbench.engine.workspace import Workspace

_LOOK = 0.1  # seconds between two checks whether the case was rescored


@dataclass(frozen=True, slots=True)
class _ReviewedCase:
    """The reviewed case and its result."""

    key: CaseKey
    case: EvalCase | None
    result: CaseResult | None
    hunks: Sequence[Hunk] = ()


def _in_order(step: Callable[[ReviewScreen], Awaitable[None]]) -> Callable[[ReviewScreen], object]:
    """Let an action begin after the actions before it have ended."""

    @wraps(step)
    def start(screen: ReviewScreen) -> object:
        return screen._take(partial(step, screen))

    return start


class ReviewScreen(Dialog[CaseKey | None], DiffKeys):
    """Returns the case to edit; None if the review ended. `post` sends messages to the main screen."""

    HELP: ClassVar[str] = (
        "The cases that did not pass, one after the other. Accepting makes the actual side the new expectation and "
        "saves it at once; undo reverts that. You can continue a review after you left it for the editor."
    )
    PLACES = ("review",)

    def __init__(self, context: ScreenContext, walk: ReviewWalk, post: Callable[[Message], object]) -> None:
        super().__init__()
        self._screen_context = context
        self._walk = walk
        self._post = post
        self._acceptor = HunkAcceptor(context, self, post)
        self._shown: _ReviewedCase | None = None
        self._steps = asyncio.Lock()
        self._seen = 0  # sequence number of the shown result in this session

    def compose(self) -> ComposeResult:
        yield StatusLine(id="review-progress")
        yield DiffView(id="review-diff")
        yield KeyLine()

    def on_mount(self) -> None:
        self.query_one(DiffView).focus_lines()
        self._take(self._show_case)
        self.set_interval(_LOOK, self._refresh_scored_case)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Disable the actions on a case after the last case, and undo if nothing was accepted."""
        if action in ("accept_hunk", "accept_case", "skip", "edit"):
            return True if self._walk.key is not None else None
        if action == "undo":
            return True if self._walk.accepted else None
        return True

    def offers(self, action: str) -> bool:
        """Return True if an action is useful for the case. The others stay enabled, and show the reason."""
        return action not in ("accept_hunk", "accept_case", "edit") or not self._explain_uneditable()

    @_in_order
    async def action_accept_hunk(self) -> None:
        current = self.query_one(DiffView).current
        await self._accept([] if current is None else [current], is_whole=False)

    @_in_order
    async def action_accept_case(self) -> None:
        await self._accept(self._shown.hunks if self._shown is not None else [], is_whole=True)

    @_in_order
    async def action_skip(self) -> None:
        self._walk.skip()
        await self._show_case()

    @_in_order
    async def action_back(self) -> None:
        if self._walk.go_back():
            await self._show_case()

    @_in_order
    async def action_edit(self) -> None:
        """Leave the review to edit this case; the review can be continued."""
        self.dismiss(self._walk.key)

    @_in_order
    async def action_undo(self) -> None:
        if not self._walk.accepted:
            say(self, "nothing was accepted in this review")
            return
        key = self._walk.keys[self._walk.accepted[-1]]
        with report_errors(self):
            if not await self._screen_context.backend.edit(lambda workspace: _undo_acceptance(workspace, key)):
                what = f"{safe_line(key.eval_set)} changed after {safe_line(key.name)} was accepted"
                say(self, f"nothing is undone: {what}; in the main screen, u undoes one step after another")
                return
        self._walk.undo()
        self._post(DocumentsChanged(frozenset([key.eval_set])))
        await self._show_case()

    @_in_order
    async def action_quit(self) -> None:
        """Show the summary; a second call closes the review."""
        if self._walk.key is None or not self._walk.decisions:
            self.dismiss(None)
            return
        self._walk.place = len(self._walk.keys)
        await self._show_case()

    @work(group="review", description="take")
    async def _take(self, step: Callable[[], Awaitable[None]]) -> None:
        """Run the steps one after the other, so that a key applies to the case that the earlier keys select.

        A started step is never cancelled: it could save an acceptance without recording it.
        """
        async with self._steps:
            if self in self.app.screen_stack:  # no earlier step has left the review
                await step()

    def _explain_uneditable(self) -> str:
        """Return why the case cannot be edited; empty if it can."""
        key = self._walk.key
        return (
            "" if key is None else find_edit_obstacle(self._screen_context.state.browser, [(key.target, key.eval_set)])
        )

    def _refresh_scored_case(self) -> None:
        """Show the case again after it was rescored."""
        if self._walk.key is not None and self._count_ends(self._walk.key) > self._seen:
            self._take(self._show_case)

    def _count_ends(self, key: CaseKey) -> int:
        record = self._screen_context.state.board.get_record(key)
        return 0 if record is None else record.result_number

    async def _show_case(self) -> None:
        """Show the current case, or the summary after the last one."""
        key = self._walk.key
        view = self.query_one(DiffView)
        if key is None:
            self._shown = None
            view.show(DiffSource(case=None, head=self._walk.summary()), about=self._walk)
        else:
            self._seen = self._count_ends(key)
            earlier = self._screen_context.state.board.find_earlier_verdicts([key])
            read = await self._screen_context.backend.project.read_case(key, stored=True, earlier=earlier)
            self._shown = shown = self._find_failed_repeat(key, read)
            source = DiffSource(
                case=shown.case,
                turns=shown.result.execution.turns if shown.result is not None else (),
                result=shown.result,
                head=tuple(self._describe_problems(read.problem)),
                lacks_expected=read.is_from_history and read.case is None,
                is_row=read.is_row or (shown.result is not None and shown.result.is_row),
            )
            view.show(source, about=key)
        self.query_one("#review-progress", StatusLine).show(self._walk.progress())
        self.refresh_bindings()

    def _find_failed_repeat(self, key: CaseKey, read: LoadedCase) -> _ReviewedCase:
        """Return the repeat that did not pass, from this session or the history."""
        record = self._screen_context.state.board.get_record(key)
        known = [outcome.result for outcome in record.outcomes.values() if outcome.result] if record is not None else []
        lacking = read.stored if record is None or record.lacks_results or not known else ()
        by_repeat = {result.repeat: result for result in (*lacking, *known)}
        results = sorted(by_repeat.values(), key=lambda result: (result.status is CaseStatus.PASSED, result.repeat))
        result = results[0] if results else None
        if read.case is None or result is None:
            return _ReviewedCase(key, read.case, result, ())
        return _ReviewedCase(key, read.case, result, find_hunks(read.case, result.execution, result.metrics))

    def _describe_problems(self, problem: str) -> Sequence[Block]:
        texts = [f"! {safe(problem)}"] if problem else []
        reason = self._walk.reason()
        if reason is not None:
            texts.append(f"! not accepted: {safe(reason)}")
        return [block for text in texts for block in (Paragraph.from_text(text, Style.ERROR), BLANK)]

    async def _accept(self, found: Sequence[Hunk], *, is_whole: bool) -> None:
        shown = self._shown
        if shown is None:
            return
        refused: str | None
        if unchangeable := self._explain_uneditable():
            refused = unchangeable
        elif shown.case is None or shown.result is None:
            refused = "the case cannot be read, or has no result"
        elif not found:
            refused = explain_refusal(shown.case, shown.result) or "there is no difference to accept"
        else:
            refused = await self._acceptor.accept(shown.case, shown.result, found, is_whole=is_whole)
        if refused is not None:
            self._walk.refuse(refused)
        else:
            self._walk.accept(is_done=len(found) == len(shown.hunks))
        await self._show_case()


def _undo_acceptance(workspace: Workspace, key: CaseKey) -> bool:
    """Undo the newest step of a set. Return False if that is not an acceptance of this case. Raises StoreError."""
    label = workspace.documents.get_status(key.eval_set).undoable
    if label is None or not (label.startswith("accept ") and label.endswith(f" of {key.eval_id}")):
        return False
    workspace.documents.undo(key.eval_set)
    return True
