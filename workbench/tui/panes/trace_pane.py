"""The trace: the tree of steps, one step in detail, and the search."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from textual import events, on, work
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.timer import Timer

from workbench.model.identity import CaseKey
from workbench.tui.keys import list_actions
from workbench.tui.screen_context import DocumentsChanged, Pane, ScreenContext
from workbench.tui.state.browser_state import Subject
from workbench.tui.state.span_detail import DetailTab, SpanDetail
from workbench.tui.state.text_layout import SIDE_BY_SIDE_FROM, Block, StyledText, cut_parts
from workbench.tui.state.trace_tree import Search
from workbench.tui.state.trace_view import TraceView, explain_absence, list_prompts
from workbench.tui.widgets.inputs import FindInput
from workbench.tui.widgets.key_line import StatusLine, TabBar, say
from workbench.tui.widgets.row_lists import FramedBox, LinesView, RowList

# The detail of a step: its tabs, and the lines of the open tab.


_TABS = tuple(DetailTab)


class DetailTabs(TabBar):
    """The tabs of a step, without numbers."""

    def list_labels(self) -> Sequence[str]:
        """List the names, and that of the key for the next tab as far as there is room."""
        labels = [f" {tab} " for tab in _TABS]
        return [piece.text for piece in cut_parts(tuple(map(StyledText, [*labels, "  d next"])), self.size.width)]


class DetailView(LinesView):
    """The lines of the open tab, with a cursor to open and fold parts."""

    PLACES = ("trace_detail", "lines")

    def __init__(self, detail: SpanDetail, *, id: str) -> None:
        super().__init__(id=id)
        self._detail = detail
        self._at = 0

    def show_detail(self, *, from_top: bool) -> None:
        if from_top:
            self._at = 0
        self.show(self._detail.render, from_top=from_top)
        self._put_cursor(self._at, in_sight=not from_top and self.has_focus)

    def select_line(self, line: int) -> None:
        self._put_cursor(line, in_sight=True)

    def scroll_to_text(self, text: str) -> None:
        """Put the cursor on the first line that contains a text, ignoring case."""
        wanted = text.casefold()
        lines = ("".join(piece.text for piece in self.lines[index]) for index in range(len(self.lines)))
        self.select_line(next((place for place, line in enumerate(lines) if wanted in line.casefold()), 0))

    def action_scroll_up(self) -> None:
        self.select_line(self._at - 1)

    def action_scroll_down(self) -> None:
        self.select_line(self._at + 1)

    def action_page_up(self) -> None:
        self.select_line(self._at - self.page_size)

    def action_page_down(self) -> None:
        self.select_line(self._at + self.page_size)

    def action_scroll_home(self) -> None:
        self.select_line(0)

    def action_scroll_end(self) -> None:
        self.select_line(len(self.lines) - 1)

    def action_open(self) -> None:
        if self._detail.toggle(self._at):
            self.show_detail(from_top=False)

    def action_fold(self) -> None:
        line = self._detail.fold(self._at)
        if line is not None:
            self._at = line
            self.show_detail(from_top=False)

    def on_focus(self) -> None:
        self._put_cursor(self._at, in_sight=True)

    def on_blur(self) -> None:
        self._put_cursor(self._at, in_sight=False)

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the clicked line. A double click opens the part there."""
        offset = event.get_content_offset(self)
        if offset is None:
            return
        self.select_line(offset.y + self.scroll_offset.y)
        if event.chain > 1:
            self.action_open()

    def _put_cursor(self, line: int, *, in_sight: bool) -> None:
        self._at = min(max(line, 0), max(len(self.lines) - 1, 0))
        self._cursor = self._at if self.has_focus else None
        if in_sight:
            self.bring_into_sight(self._at)
        self.draw_changes()


# The input for a search in the trace.


class SearchInput(FindInput):
    """Hidden without a search. Enter goes to the first match, escape ends the search."""

    def __init__(self) -> None:
        super().__init__(placeholder="text in names, requests, responses", compact=True, select_on_focus=True)
        self.display = False

    def open(self) -> None:
        self.display = True
        self.focus()

    def close(self) -> None:
        """Empty the input and hide it."""
        self.value = ""
        self.display = False


# The tree of steps, as rows.


class SpanList(RowList):
    """Rows that can be folded."""

    PLACES = ("trace_tree", "rows")

    @dataclass
    class FoldWanted(RowList.OfList):
        """The user wants to `fold`, `unfold`, `fold_all` or `unfold_all`."""

        how: str

    @dataclass
    class Resized(RowList.OfList):
        """The width of the rows changed."""

    def on_resize(self) -> None:
        """Report the new width, so that the lines above the rows can follow."""
        self.post_message(self.Resized(self))

    def action_fold(self, how: str) -> None:
        self.post_message(self.FoldWanted(self, how))


# The trace pane: the tree of steps, and below or beside it one step in detail.

_OF_STEPS = list_actions("trace") - {"end_search"}
_SEARCHED_AT_ONCE = 100_000  # characters, a few milliseconds
_REST = 10  # the pause between two updates of a live trace, as a multiple of the time of an update
_TYPING = 0.15  # seconds without a key before a search begins
_SHARES = (15, 30, 45, 60, 75)  # percent of the room that the tree can have


class TracePane(Pane):
    """Steps as a tree with bars, and the selected one in detail."""

    TAB = "Trace"
    HELP = (
        "The steps of the agent by user message, each with a bar for its time and duration. Kinds: ◎ invocation, ◆ "
        "agent, ✦ model "
        "call, ƒ tool call, · other. Marks: ! error, ◷ slow, … running, » became an event of the session. "
        "Enter goes to the detail of a step, where l opens and h folds the part on a line."
    )
    PLACES = ("trace",)

    def __init__(self, context: ScreenContext, *, id: str) -> None:
        super().__init__(context, id=id)
        self._view = TraceView()
        self._detail = SpanDetail()
        self._session: tuple[CaseKey | None, int | None, str | None] | None = None
        self._is_late = False  # the selection is shown when the search is left
        self._source: object = None  # the source of the steps on the screen; `_known` counts them
        self._known: object = None
        self._absence: list[Block] | None = None
        self._shares = {False: 2, True: 3}  # which of _SHARES, below each other and beside each other
        self._ready_at = 0.0
        self._later: Timer | None = None
        self._typing: Timer | None = None

    def compose(self) -> ComposeResult:
        yield LinesView(id="trace-absence")
        with Vertical(id="trace-whole"):
            yield StatusLine(id="trace-summary")
            yield StatusLine(id="trace-message")
            with Container(id="trace-body"):
                with Vertical(id="trace-left"):
                    yield StatusLine(id="trace-axis")
                    yield SpanList(id="trace-tree")
                    yield SearchInput()
                with FramedBox(id="trace-right"):
                    yield DetailTabs(_TABS, id="trace-tabs")
                    yield DetailView(self._detail, id="trace-detail")

    def on_mount(self) -> None:
        """Hide the trace until a case is shown."""
        self.query_one("#trace-whole").display = False
        self._give_room()

    # The shown session.

    @property
    def _is_search_typed(self) -> bool:
        return self.is_mounted and self.query_one(SearchInput).has_focus

    @property
    def must_stay(self) -> bool:
        """True while the user searches the trace of a case, and another one is selected because it is gone."""
        return self._is_search_typed and (self._session or (None,))[0] != self.context.state.subject().key

    def on_descendant_blur(self) -> None:
        """Show what could not be shown while a search was typed."""
        if self._is_late and not self._is_search_typed:
            self.post_message(DocumentsChanged(frozenset()))

    def show(self, subject: Subject) -> None:
        """Show the known steps of the selected session."""
        self._stop_waiting()
        if not self.is_mounted:  # a worker may report before the widgets exist
            return
        spans, turns, prompts = subject.spans, subject.turns, list_prompts(subject)
        source = spans if subject.result is None else subject.result
        known = (len(spans), len(turns), prompts)
        session = (subject.key, subject.repeat, subject.pinned.title if subject.pinned is not None else None)
        self._is_late = self._is_search_typed and (not spans or session != self._session)
        if self._is_late:  # without the input, the text would act as commands
            return
        if not spans:
            self._show_absence(tuple(explain_absence(subject)))
            return
        if session == self._session and source is self._source and known == self._known:
            return
        if subject.is_live and session == self._session and (wait := self._ready_at - time.monotonic()) > 0:
            self._later = self.set_timer(wait, lambda: self.show(self.context.state.subject()))
            return
        if session != self._session:
            self._view.forget()
            self._end_search()
        self._session, self._source, self._known = session, source, known
        began = time.monotonic()
        self._view.show(spans, turns, prompts, is_live=subject.is_live)
        self._end_absence()
        if self._view.search is not None:
            self._search(self._view.search.text)
        self._show_all()
        now = time.monotonic()
        self._ready_at = now + _REST * (now - began)

    def hide(self) -> None:
        """Stop timers and the search while the pane is hidden."""
        self._stop_waiting()
        self.workers.cancel_group(self, "trace-search")

    def focus_first(self) -> None:
        """Focus the tree, or the reason why there is no trace."""
        if self.is_mounted:
            self.query_one("#trace-absence" if self._absence is not None else "#trace-tree").focus()

    def copyable(self) -> str | None:
        """Return the selected step as JSON; with the focus on the detail, the open tab."""
        if self._absence is not None:
            return None
        return self._detail.copyable() if self._detail_view.has_focus else self._detail.copyable_row()

    def find_turn_at_cursor(self) -> int | None:
        row = self._view.selected_row
        return None if row is None or self._absence is not None else row.key.turn

    def on_resize(self, event: events.Resize) -> None:
        """Show tree and detail side by side if the screen is wide enough."""
        beside = self.screen.size.width >= SIDE_BY_SIDE_FROM and event.size.width >= SIDE_BY_SIDE_FROM
        self.set_class(beside, "-beside")
        self._give_room()

    # What the user does in the tree.

    @on(SpanList.Steered)
    def _on_steered(self, message: SpanList.Steered) -> None:
        message.steer(self._view)
        self._show_all()

    @on(SpanList.Resized)
    def _on_resized(self) -> None:
        self._show_lines()

    @on(SpanList.Entered)
    def _on_entered(self) -> None:
        self._detail_view.focus()

    @on(SpanList.FoldWanted)
    def _on_fold_wanted(self, message: SpanList.FoldWanted) -> None:
        fold = {
            "fold": self._view.fold,
            "unfold": self._view.unfold,
            "fold_all": self._view.fold_all,
            "unfold_all": self._view.unfold_all,
        }
        fold[message.how]()
        self._show_all()

    @on(DetailTabs.Chosen)
    def _on_tab_chosen(self, message: DetailTabs.Chosen) -> None:
        message.stop()
        self._detail.choose(_TABS[message.index], self._view)
        self._show_detail()

    # What the keys of the pane do.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Disable the keys for steps without steps, and the end of a search without a search."""
        if action == "end_search":
            return self._view.search is not None
        return self._absence is None or action not in _OF_STEPS

    def action_step_tab(self, by: int) -> None:
        self._detail.step(by, self._view)
        self._show_detail()

    def action_go_to_error(self, step: int) -> None:
        if self._view.go_to_error(step):
            self._show_all()
        else:
            say(self, "no step of this session has an error")

    def action_go_to_slowest(self) -> None:
        if self._view.go_to_slowest():
            self._show_all()
        else:
            say(self, "there are no two steps with times to compare")

    def action_toggle_errors_only(self) -> None:
        self._view.toggle_errors_only()
        self._show_all()

    def action_next_kind(self) -> None:
        self._view.next_kind()
        self._show_all()

    def action_toggle_scale(self) -> None:
        self._view.toggle_scale()
        self._show_all()

    def action_resize(self, by: int) -> None:
        beside = self.has_class("-beside")
        self._shares[beside] = min(max(self._shares[beside] + by, 0), len(_SHARES) - 1)
        self._give_room()

    # Searching.

    def action_search(self) -> None:
        self.query_one(SearchInput).open()

    def action_end_search(self) -> None:
        self.query_one(SpanList).focus()
        self._end_search()

    def action_go_to_match(self, step: int) -> None:
        if self._view.go_to_match(step) is None:
            say(self, "no match" if self._view.search is not None else "/ searches a text")
        else:
            self._show_match()

    @on(SearchInput.Changed)
    def _on_search_changed(self, message: SearchInput.Changed) -> None:
        message.stop()
        if self._typing is not None:
            self._typing.stop()
        text = message.value
        if text:
            self._typing = self.set_timer(_TYPING, lambda: self._search(text))

    @on(SearchInput.Submitted)
    def _on_search_submitted(self, message: SearchInput.Submitted) -> None:
        message.stop()
        if self._typing is not None:
            self._typing.stop()
        self.query_one(SpanList).focus()
        if message.value:
            self._search(message.value, then_go=True)
        else:
            self._end_search()

    @on(SearchInput.Left)
    def _on_search_left(self) -> None:
        self.action_end_search()

    @work(group="trace-search", exclusive=True, description="search")
    async def _search(self, text: str, *, then_go: bool = False) -> None:
        """Search the steps, a few milliseconds at a time. A new search cancels this one."""
        search = Search(text, self._view.tree.ordered)
        while not search.is_done:
            search.step(_SEARCHED_AT_ONCE)
            await asyncio.sleep(0)
        self._view.search = search
        if then_go and self._view.match_here() is None and self._view.go_to_match(1) is None:
            say(self, f"no match: {text}")
        if then_go and search.matches:
            self._show_match()
        else:
            self._show_all()

    def _end_search(self) -> None:
        self.workers.cancel_group(self, "trace-search")
        self._view.search = None
        self._detail.unmark()
        self.query_one(SearchInput).close()
        self._show_all()

    def _show_match(self) -> None:
        match = self._view.match_here()
        self._show_all()
        if match is not None and self._view.search is not None:
            self._detail.reveal(self._view.search.text, match.where, self._view)
            self._show_detail()
            self._detail_view.scroll_to_text(self._view.search.text)

    # Showing.

    @property
    def _detail_view(self) -> DetailView:
        return self.query_one(DetailView)

    def _stop_waiting(self) -> None:
        if self._later is not None:
            self._later.stop()
            self._later = None

    def _show_absence(self, blocks: tuple[Block, ...]) -> None:
        self._source = None
        absence = list(blocks)
        if absence == self._absence:
            return
        from_steps = self._absence is None
        had_focus = self.has_focus_within and from_steps
        self._absence = absence
        view = self.query_one("#trace-absence", LinesView)
        view.display = True
        self.query_one("#trace-whole").display = False
        if had_focus:
            view.focus()
        view.show_blocks(absence, from_top=True)

    def _end_absence(self) -> None:
        self.query_one("#trace-absence").display = False
        self.query_one("#trace-whole").display = True
        if self._absence is not None and self.query_one("#trace-absence").has_focus:
            self.query_one(SpanList).focus()
        self._absence = None

    def _show_all(self) -> None:
        self._show_lines()
        is_other = self._detail.show(self._view)
        self._detail_view.show_detail(from_top=is_other)
        self._show_tab()

    def _show_tab(self) -> None:
        self.query_one(DetailTabs).show(_TABS.index(self._detail.tab))

    def _show_detail(self) -> None:
        self._show_tab()
        self._detail_view.show_detail(from_top=True)

    def _show_lines(self) -> None:
        """Show the tree and the lines above it."""
        tree = self.query_one(SpanList)
        self.query_one("#trace-summary", StatusLine).show(self._view.summary())
        self.query_one("#trace-message", StatusLine).show(self._view.message_line())
        width = tree.scrollable_content_region.width
        self.query_one("#trace-axis", StatusLine).show(self._view.axis_line(width))
        tree.show(self._view)

    def _give_room(self) -> None:
        """Divide the room between tree and detail."""
        share = _SHARES[self._shares[self.has_class("-beside")]]
        left, right = self.query_one("#trace-left"), self.query_one("#trace-right")
        if self.has_class("-beside"):
            left.styles.width, right.styles.width = f"{share}fr", f"{100 - share}fr"
            left.styles.height = right.styles.height = "1fr"
        else:
            left.styles.height, right.styles.height = f"{share}fr", f"{100 - share}fr"
            left.styles.width = right.styles.width = "1fr"
