"""The diff of expected and actual side, and the acceptance of differences."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.widget import Widget

from workbench.engine.acceptance import Acceptance, AcceptanceRefused, Hunk, explain_refusal, find_hunks
from workbench.model.evalset import EvalCase
from workbench.model.results import CaseResult
from workbench.report.text_report import describe_difference
from workbench.store.errors import FileChanged, StoreError
from workbench.tui.dialogs.dialogs import ConfirmScreen, Dialog
from workbench.tui.screen_context import DocumentsChanged, Pane, RunBegun, SaveWanted, ScreenContext
from workbench.tui.state.browser_rows import make_case_notes
from workbench.tui.state.browser_state import Subject
from workbench.tui.state.diff_content import make_diff
from workbench.tui.state.diff_lines import DiffContent, DiffSource, Level
from workbench.tui.state.diff_state import DiffLines, DiffState, is_large, lay_out_diff
from workbench.tui.state.project_state import find_obstacle
from workbench.tui.state.text_layout import SIDE_BY_SIDE_FROM, Style, StyledText, plural
from workbench.tui.widgets.key_line import KeyLine, StatusLine, say
from workbench.tui.widgets.row_lists import ClickableLines

# Acceptance of differences.


class HunkAcceptor:
    """Accepts differences as the new expectation. `post` sends messages to the main screen; `widget` shows warnings."""

    def __init__(self, context: ScreenContext, widget: Widget, post: Callable[[Message], object]) -> None:
        self._screen_context = context
        self._widget = widget
        self._post = post

    async def accept(self, case: EvalCase, result: CaseResult, hunks: Sequence[Hunk], *, is_whole: bool) -> str | None:
        """Accept hunks of a result that were found against this case, save the case, and rescore the result.

        Return the reason if it was refused.
        """
        shown = self._screen_context.state.board.find_verdicts_by_case([result.case]).get(result.case, {})
        wanted = Acceptance(shown=case, result=result, hunks=hunks, is_whole=is_whole, repeats=shown)
        label = f"accept {plural(len(hunks), 'difference')} of {result.case.eval_id}"
        eval_set = result.case.eval_set
        try:
            begun = await self._screen_context.backend.accepting.accept(wanted, label=label)
        except AcceptanceRefused as refused:
            return str(refused)
        except FileChanged as error:
            self._post(DocumentsChanged(frozenset([eval_set])))
            self._post(SaveWanted(eval_set))
            return str(error)
        except StoreError as error:
            return str(error)
        self._post(DocumentsChanged(frozenset([eval_set])))
        if isinstance(begun, str):
            say(self._widget, f"accepted and saved, but not rescored: {begun}", severity="warning")
        else:
            self._post(RunBegun(begun.run, begun.jobs))
        return None


# A diff on the screen: the status line, and the lines of both sides.

_Shape = tuple[int, bool]  # the width in cells, and whether the sides are side by side
_WAIT = DiffLines([(StyledText("comparing …", Style.MUTED),)], [None])


class DiffView(Vertical):
    """Shows one source at a time. A large one is compared and laid out in a thread."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.state = DiffState()
        self._lines = DiffLines()
        self._laid_out: tuple[DiffContent, _Shape] | None = None
        self._wanted: DiffSource | None = None
        self._about: object = None
        self._goes_to_end = False
        self._awaits_layout = False

    def compose(self) -> ComposeResult:
        yield StatusLine(id="diff-status")
        yield ClickableLines(id="diff-lines")

    def on_resize(self) -> None:
        """Adapt the status line to its width. At the first layout, go to the cursor."""
        self._show_status()
        if self._awaits_layout:
            self._awaits_layout = False
            self.call_after_refresh(self._show_cursor)

    def show(self, source: DiffSource, *, about: object) -> None:
        """Show a diff. The cursor keeps its place if `about` is the same as before."""
        wanted = self.state.find_new_source(source) or self.state.source
        if wanted == self._wanted:
            return
        self._wanted, self._about = wanted, about
        if wanted == self.state.source:  # another diff was being made
            self.workers.cancel_group(self, "compare")
            self._take(self.state.source, self.state.content)
        elif is_large(wanted):
            self._compare(wanted)
        else:
            self.workers.cancel_group(self, "compare")
            self._take(wanted, make_diff(wanted))

    def step(self, by: int) -> bool:
        """Go to the next (1) or previous (-1) difference. Return False if there is no other one."""
        moved = self.state.step(by)
        self._show_cursor()
        return moved

    def cycle_level(self) -> None:
        """Show more or fewer of the equal parts."""
        self.state.cycle_level()
        self.show(self.state.source, about=self._about)

    def focus_lines(self) -> None:
        self.query_one(ClickableLines).focus()

    @property
    def current(self) -> Hunk | None:
        """The difference at the cursor; None while the next diff is being made."""
        return self.state.current if self._wanted is self.state.source else None

    @on(ClickableLines.Clicked)
    def _on_clicked(self, message: ClickableLines.Clicked) -> None:
        message.stop()
        owner = self._lines.owners[message.line] if message.line < len(self._lines) else None
        if owner is not None and self.state.select(owner):
            self._show_cursor()

    # Without a description, Textual would format the arguments, which takes long for a long session.
    @work(group="compare", exclusive=True, description="compare")
    async def _compare(self, source: DiffSource) -> None:
        self.query_one(ClickableLines).show(lambda _: _WAIT, from_top=True)
        content = await asyncio.to_thread(make_diff, source)
        width = self.query_one(ClickableLines).scrollable_content_region.width
        if width:
            await self._render_and_keep(content, self._shape(width))
        self._take(source, content)

    def _take(self, source: DiffSource, content: DiffContent) -> None:
        view = self.query_one(ClickableLines)
        # A view at the end of a conversation follows it while it grows.
        grows = source.is_scenario and (source.is_live or self.state.source.is_live)
        at_end = grows and (self._goes_to_end or view.scroll_offset.y >= view.max_scroll_y)
        stays = self.state.show(source, content, about=self._about, stays=view.scroll_offset.y > 0)
        self._wanted = source
        view.show(self._make_lines, from_top=not stays)
        self._show_cursor(scroll=stays or bool(self.state.cursor))
        self._awaits_layout = not view.scrollable_content_region.width
        if stays and at_end:
            self._goes_to_end = True
            self.call_after_refresh(self._go_to_end)  # the scroll bar may appear first

    def _go_to_end(self) -> None:
        self._goes_to_end = False
        self.query_one(ClickableLines).scroll_end(animate=False, immediate=True)

    def _shape(self, width: int) -> _Shape:
        return width, self.screen.size.width >= SIDE_BY_SIDE_FROM

    def _make_lines(self, width: int) -> DiffLines:
        """Return the lines for a width. The lines of a large diff are made in a thread and shown later."""
        content, shape = self.state.content, self._shape(width)
        if not self._has(content, shape):
            if is_large(self.state.source):
                self._render_in_thread(content, shape)
                return _WAIT
            self._keep(content, shape, lay_out_diff(content, width=width, side_by_side=shape[1]))
        return self._lines.with_cursor(self.state.cursor)

    @work(group="lay-out", exclusive=True, description="lay out")
    async def _render_in_thread(self, content: DiffContent, shape: _Shape) -> None:
        await self._render_and_keep(content, shape)
        self._show_cursor()

    async def _render_and_keep(self, content: DiffContent, shape: _Shape) -> None:
        width, side_by_side = shape
        lines = await asyncio.to_thread(lay_out_diff, content, width=width, side_by_side=side_by_side)
        self._keep(content, shape, lines)

    def _has(self, content: DiffContent, shape: _Shape) -> bool:
        return self._laid_out is not None and self._laid_out[0] is content and self._laid_out[1] == shape

    def _keep(self, content: DiffContent, shape: _Shape, lines: DiffLines) -> None:
        self._laid_out, self._lines = (content, shape), lines

    def _show_cursor(self, *, scroll: bool = True) -> None:
        """Mark the difference at the cursor, scroll to it, and describe it in the status line."""
        self._show_status()
        view = self.query_one(ClickableLines)
        view.show(self._make_lines, from_top=False)
        span = None if self.state.cursor is None else self._lines.find_lines(self.state.cursor)
        if span is not None and scroll:
            view.bring_into_sight(span[1])
            view.bring_into_sight(span[0])

    def _show_status(self) -> None:
        line = self.query_one(StatusLine)
        line.show(self.state.status(line.size.width))


class DiffKeys(Widget):
    """Base of panes and screens with a diff: the keys that all of them have."""

    def action_step(self, by: int) -> None:
        self.query_one(DiffView).step(by)

    def action_cycle_level(self) -> None:
        self.query_one(DiffView).cycle_level()


# The whole diff: all texts in full, and all equal parts.


class WholeScreen(Dialog[None], DiffKeys):
    """Shows one source without limits."""

    PLACES = ("whole",)

    def __init__(self, source: DiffSource) -> None:
        super().__init__()
        self._source = replace(source, most=None)

    def compose(self) -> ComposeResult:
        yield DiffView(id="whole-diff")
        yield KeyLine()

    def on_mount(self) -> None:
        view = self.query_one(DiffView)
        view.state.level = Level.EVERYTHING
        view.show(self._source, about=self)
        view.focus_lines()


# The diff pane: the expected and the actual side; each difference can be accepted.


class DiffPane(Pane, DiffKeys):
    """Expected and actual side, for one repeat of a case."""

    TAB = "Diff"
    HELP = (
        "Expected and actual side by side: − is missing, + is unexpected. A letter at the left means that a criterion "
        "lost points there; the letters are explained below each turn. A difference without colour cost no points. "
        "Accepting makes the actual side the new expectation, saves it, and rescores the case without an agent run."
    )
    PLACES = ("diff",)

    def __init__(self, context: ScreenContext, *, id: str) -> None:
        super().__init__(context, id=id)
        self._subject = Subject()
        self._acceptor = HunkAcceptor(context, self, self.post_message)

    def compose(self) -> ComposeResult:
        yield DiffView(id="diff-view")

    def show(self, subject: Subject) -> None:
        self._subject = subject
        source = DiffSource(case=None, head=tuple(make_case_notes(subject)))
        if subject.loaded is not None or subject.pinned is not None:
            source = DiffSource(
                case=subject.case,
                turns=tuple(subject.turns),
                spoken=subject.pending_user_message,
                is_live=subject.is_live,
                result=subject.result,
                head=source.head,
                lacks_expected=subject.lacks_reference,
                is_row=subject.is_row,
            )
        self.query_one(DiffView).show(source, about=(subject.key, subject.repeat, subject.pinned))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Disable accepting if no case is selected. Other reasons are shown when the user tries to accept."""
        return self._subject.key is not None or not action.startswith("accept_")

    def offers(self, action: str) -> bool:
        """Whether an action is useful for the selection."""
        return not action.startswith("accept_") or not find_obstacle("accept", self.context.state)

    def focus_first(self) -> None:
        self.query_one(DiffView).focus_lines()

    def copyable(self) -> str | None:
        """Return a description of the difference at the cursor, else the response."""
        current = self.query_one(DiffView).current
        if current is not None:
            return describe_difference(current.difference)
        last = self._subject.turns[-1].invocation.final_response if self._subject.turns else None
        return None if last is None else last.text()

    def find_turn_at_cursor(self) -> int | None:
        current = self.query_one(DiffView).current
        return None if current is None else current.turn

    def action_step(self, by: int) -> None:
        if not self.query_one(DiffView).step(by):
            way = "further" if by > 0 else "earlier"
            say(self, f"no {way} difference in this case; n and p go to other cases that did not pass")

    def action_open_whole(self) -> None:
        self.app.push_screen(WholeScreen(self.query_one(DiffView).state.source))

    def action_accept_hunk(self) -> None:
        current = self.query_one(DiffView).current
        self._accept([] if current is None else [current], is_whole=False)

    def action_accept_turn(self) -> None:
        view = self.query_one(DiffView)
        turn = None if view.current is None else view.current.turn
        self._accept([hunk for hunk in view.state.hunks if hunk.turn == turn], is_whole=True)

    def action_accept_case(self) -> None:
        subject = self._subject
        if subject.case is None or subject.result is None:
            self._accept([], is_whole=True)
            return
        found = find_hunks(subject.case, subject.result.execution, subject.result.metrics)
        if self._nothing_to_accept(found) is not None:
            self._accept(found, is_whole=True)
            return
        question = f"Accept {plural(len(found), 'difference')} of {subject.case.eval_id} as the new expectation?"
        self.app.push_screen(
            ConfirmScreen(question), lambda agreed: self._accept(found, is_whole=True) if agreed else None
        )

    def _accept(self, found: Sequence[Hunk], *, is_whole: bool) -> None:
        subject = self._subject
        reason = self._nothing_to_accept(found)
        if reason is not None:
            say(self, reason, severity="warning")
        else:
            self._accept_hunks(subject, found, is_whole=is_whole)

    @work(group="accept", description="accept hunks")
    async def _accept_hunks(self, subject: Subject, found: Sequence[Hunk], *, is_whole: bool) -> None:
        assert subject.case is not None
        assert subject.result is not None
        refused = await self._acceptor.accept(subject.case, subject.result, found, is_whole=is_whole)
        if refused is not None:
            say(self, f"not accepted: {self.context.state.name_keys(refused)}", severity="warning")
        else:
            key = self.context.state.find_key("undo")
            say(self, f"accepted {plural(len(found), 'difference')}; {key} undoes it")

    def _nothing_to_accept(self, found: Sequence[Hunk]) -> str | None:
        subject = self._subject
        if reason := find_obstacle("accept", self.context.state):
            return reason
        if subject.pinned is not None:
            return "this is not the newest result of the case; escape returns to it"
        if subject.key is not None and subject.key != self.context.state.selected_case:
            # Typed ahead: the key is for the case that the earlier keys select, and its diff is not shown yet.
            return "another case was selected meanwhile; look at its differences first"
        if subject.is_live:
            return "the case is still running"
        if subject.record is not None and subject.record.pending_jobs:
            return "the case is queued to run against its current expectation; wait for the run, or stop it first"
        if subject.case is None or subject.result is None:
            return "there is nothing to accept: the case has not run"
        if found:
            return None
        return explain_refusal(subject.case, subject.result) or "there is nothing to accept: no difference"
