"""What covers the main screen for a while and tells where to go on: the review, the table of results, new scenarios."""

from __future__ import annotations

from textual import work

from workbench.model.keys import CaseKey
from workbench.tui.hub import Hub
from workbench.tui.messages import CaseWanted
from workbench.tui.screens.faceless import Faceless
from workbench.tui.screens.review import ReviewScreen
from workbench.tui.state.diff.review import ReviewWalk
from workbench.tui.state.possible import why_nothing
from workbench.tui.state.table.scope import Scope
from workbench.tui.widgets.saying import say


class Visits(Faceless):
    """Opens them, and posts what they lead to."""

    def __init__(self, hub: Hub) -> None:
        super().__init__()
        self._hub = hub
        self._left: ReviewWalk | None = None  # a review that was left for the editor

    def review(self) -> None:
        """Go through the cases that did not pass; a review that was left for the editor is gone on with."""
        walk = self._left or ReviewWalk(self._hub.state.failing_cases())
        self._left = None
        if not walk.keys:
            say(self, "no case that did not pass is listed", severity="warning")
            return

        def leave(to_edit: CaseKey | None) -> None:
            if to_edit is not None:
                self._left = walk
                say(self, "v goes on with the review")
                self.post_message(CaseWanted(to_edit, tab="case"))

        self.app.push_screen(ReviewScreen(self._hub, walk, self.post_message), leave)

    @work(group="generate", exclusive=True)
    async def generate(self) -> None:
        """Have a model write scenarios for the selected set or agent, look through them, and save those to keep."""
        from workbench.tui.screens.generating import generate  # seldom needed, and with the engine

        state = self._hub.state
        row = state.browser.selected
        if row is None or not row.target or state.browser.is_kept(row.target, row.eval_set):
            say(self, f"no scenarios can be written: {why_nothing(state)}", severity="warning")
            return
        await generate(self, self._hub, row)

    @work(group="new_target", exclusive=True)
    async def add_target(self) -> None:
        """Add an agent to the settings of the project."""
        from workbench.tui.screens.new_target import add_target  # seldom needed

        await add_target(self, self._hub)

    @work(group="table", exclusive=True)
    async def open_table(self) -> None:
        """Show the newest results as a table, and go to the case that is chosen there."""
        from workbench.tui.screens.table import TableScreen  # seldom needed, and never at the start

        scope = Scope.around(self._hub.state.browser.selected)
        case = await self.app.push_screen_wait(TableScreen(self._hub, scope=scope))
        if case is not None:
            self.post_message(CaseWanted(case, tab="diff"))
