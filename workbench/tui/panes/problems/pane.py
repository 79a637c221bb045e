"""Everything that is wrong, with file and place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.message import Message

from workbench.tui.external_editor import open_file
from workbench.tui.keys import bindings
from workbench.tui.messages import CaseWanted
from workbench.tui.panes.pane import Pane
from workbench.tui.state.problems import ListedProblem, Source
from workbench.tui.state.subject import Subject
from workbench.tui.widgets.lines_view import LinesView
from workbench.tui.widgets.row_list import RowList
from workbench.tui.widgets.saying import say


class ProblemsPane(Pane):
    """The list of problems, and the selected one in full."""

    TAB = "Problems"
    HELP = (
        "Everything that is wrong: settings, themes, keys, eval sets, cases, the history; each with file and place. "
        "Enter goes to the case, shows both versions of an eval set that changed under unsaved edits, or opens the "
        "file in your editor at the line."
    )
    PLACES: ClassVar[tuple[str, ...]] = ("problems",)
    BINDINGS: ClassVar[list[BindingType]] = [*bindings("problems")]

    @dataclass
    class ConflictOpened(Message):
        """The user wants to choose between the versions of this eval set."""

        eval_set: str

    @dataclass
    class RecoveriesOpened(Message):
        """The user wants to see what earlier sessions left unsaved."""

    def compose(self) -> ComposeResult:
        """The list, and the selected problem below it."""
        yield RowList(id="problems-list")
        yield LinesView(id="problems-detail")

    def show(self, subject: Subject) -> None:  # noqa: ARG002 - problems are the same whatever is selected
        """Show the problems as they are now."""
        problems = self.hub.state.problems
        rows, detail = self.query_one(RowList), self.query_one(LinesView)
        rows.display = len(problems) > 0
        rows.show(problems)
        detail.show_blocks(problems.detail(), from_top=True)

    def focus_first(self) -> None:
        """The list; where it is empty, what is said instead."""
        rows = self.query_one(RowList)
        (rows if rows.display else self.query_one(LinesView)).focus()

    def copyable(self) -> str | None:
        """The selected problem."""
        problem = self.hub.state.problems.selected
        return None if problem is None else ": ".join(filter(None, [problem.where, problem.place, problem.message]))

    @on(RowList.Steered)
    def _on_steered(self, message: RowList.Steered) -> None:
        message.steer(self.hub.state.problems)
        self.show(self.hub.state.subject())

    @on(RowList.Entered)
    def _on_entered(self) -> None:
        problem = self.hub.state.problems.selected
        if problem is None:
            return
        if problem.conflict:
            self.post_message(self.ConflictOpened(problem.eval_set))
        elif problem.source is Source.RECOVERY:
            self.post_message(self.RecoveriesOpened())
        elif problem.case is not None:
            self.post_message(CaseWanted(problem.case, tab="case"))
        else:
            self._open(problem)

    def action_open_file(self) -> None:
        """Open the file of the problem in the user's editor."""
        problem = self.hub.state.problems.selected
        if problem is not None:
            self._open(problem)

    @work(group="editor")
    async def _open(self, problem: ListedProblem) -> None:
        if problem.path is None or not problem.path.exists():
            say(self, "there is no file to open for this", severity="warning")
            return
        await open_file(self.app, problem.path, line=problem.line)
