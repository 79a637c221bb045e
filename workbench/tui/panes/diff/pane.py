"""The pane `diff`: expected beside actual, difference by difference, each of which can be accepted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType

from workbench.engine.accepting import Hunk, hunks, refusal
from workbench.report.explain import describe
from workbench.tui.hub import Hub
from workbench.tui.keys import bindings
from workbench.tui.panes.diff.acceptor import Acceptor
from workbench.tui.panes.diff.diff_view import DiffView
from workbench.tui.panes.diff.whole_screen import WholeScreen
from workbench.tui.panes.pane import Pane
from workbench.tui.screens.confirm import ConfirmScreen
from workbench.tui.state.details import case_head
from workbench.tui.state.diff.source import DiffSource
from workbench.tui.state.pieces import plural
from workbench.tui.state.possible import why_not
from workbench.tui.state.subject import Subject
from workbench.tui.widgets.saying import say


class DiffPane(Pane):
    """Expected beside actual, for one repeat of a case."""

    TAB = "Diff"
    HELP = (
        "What was expected beside what the agent did: − is missing, + was not expected, and ↳ names the criterion that "
        "lost points there. A difference without colour cost nothing. Accepting takes the actual side as the new "
        "expectation, saves it, and scores it again without running the agent."
    )
    PLACES: ClassVar[tuple[str, ...]] = ("diff",)
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("diff")]

    def __init__(self, hub: Hub, *, id: str) -> None:
        super().__init__(hub, id=id)
        self._subject = Subject()
        self._acceptor = Acceptor(hub, self, self.post_message)

    def compose(self) -> ComposeResult:
        """One diff."""
        yield DiffView(id="diff-view")

    def show(self, subject: Subject) -> None:
        """Show the case that is selected, or what there is to say about another row."""
        self._subject = subject
        if subject.key is None:
            row = subject.row.place if subject.row is not None else None
            source = DiffSource(case=None, head=self.hub.state.detail())
            self.query_one(DiffView).show(source, about=row)
            return
        source = DiffSource(case=None, head=tuple(case_head(subject)))
        if subject.read is not None or subject.pinned is not None:
            source = DiffSource(
                case=subject.case,
                turns=tuple(subject.turns),
                spoken=subject.spoken,
                is_live=subject.is_live,
                result=subject.result,
                head=source.head,
                lacks_expected=subject.lacks_expected,
                is_row=subject.is_row,
            )
        self.query_one(DiffView).show(source, about=(subject.key, subject.repeat, subject.pinned))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Only a case has something to accept; what keeps it from being accepted is said when it is tried."""
        return self._subject.key is not None or not action.startswith("accept_")

    def offers(self, action: str) -> bool:
        """Whether an action has a use for what is selected."""
        return not action.startswith("accept_") or not why_not("accept", self.hub.state)

    def focus_first(self) -> None:
        """The lines."""
        self.query_one(DiffView).focus_lines()

    def copyable(self) -> str | None:
        """The difference under the cursor in words, else the response."""
        current = self.query_one(DiffView).current
        if current is not None:
            return describe(current.difference)
        last = self._subject.turns[-1].invocation.final_response if self._subject.turns else None
        return None if last is None else last.text()

    def action_step(self, by: int) -> None:
        """Go to another difference."""
        if not self.query_one(DiffView).step(by):
            way = "further" if by > 0 else "earlier"
            say(self, f"no {way} difference in this case; n and p go to other cases that did not pass")

    def action_cycle_level(self) -> None:
        """Show more or less of what is as expected."""
        self.query_one(DiffView).cycle_level()

    def action_open_whole(self) -> None:
        """Show all of every text."""
        self.app.push_screen(WholeScreen(self.query_one(DiffView).state.source))

    def action_accept_hunk(self) -> None:
        """Accept the difference under the cursor."""
        current = self.query_one(DiffView).current
        self._accept([] if current is None else [current], is_whole=False)

    def action_accept_turn(self) -> None:
        """Accept all differences of the turn that the cursor is in."""
        view = self.query_one(DiffView)
        turn = None if view.current is None else view.current.turn
        self._accept([hunk for hunk in view.state.hunks if hunk.turn == turn], is_whole=True)

    def action_accept_case(self) -> None:
        """Accept all differences, once the user has agreed."""
        subject = self._subject
        if subject.case is None or subject.result is None:
            self._accept([], is_whole=True)
            return
        found = hunks(subject.case, subject.result.execution)
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
            self._carry_out(subject, found, is_whole=is_whole)

    @work(group="accept")
    async def _carry_out(self, subject: Subject, found: Sequence[Hunk], *, is_whole: bool) -> None:
        assert subject.case is not None
        assert subject.result is not None
        refused = await self._acceptor.accept(subject.case, subject.result, found, is_whole=is_whole)
        if refused is not None:
            say(self, f"not accepted: {refused}", severity="warning")
        else:
            say(self, f"accepted {plural(len(found), 'difference')}; u takes it back")

    def _nothing_to_accept(self, found: Sequence[Hunk]) -> str | None:
        subject = self._subject
        if reason := why_not("accept", self.hub.state):
            return reason
        if subject.pinned is not None:
            return "this is not the newest result of the case; escape returns to that"
        if subject.key is not None and subject.key != self.hub.state.selected_case:
            # Whoever types ahead means the case that the keys before led to, and has not seen it yet.
            return "another case was selected meanwhile; look at its differences first"
        if subject.is_live:
            return "the case is still running"
        if subject.record is not None and subject.record.outstanding:
            return "the case is about to run against what it expects now; accept when it has, or stop it first"
        if subject.case is None or subject.result is None:
            return "there is nothing to accept: the case has not run"
        if found:
            return None
        return refusal(subject.case, subject.result) or "there is nothing to accept: no difference"
