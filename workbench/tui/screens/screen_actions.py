"""The actions of the main screen that open a screen of their own. Each is seldom needed, and imported when it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual import work

from workbench.model.identity import CaseKey
from workbench.tui.screen_context import ScreenContext
from workbench.tui.state.project_state import find_obstacle
from workbench.tui.widgets.key_line import say
from workbench.tui.widgets.row_lists import StyledScreen

if TYPE_CHECKING:
    from workbench.tui.screens.cause_searches import SearchController


class ScreenActions(StyledScreen[None]):
    """Opens other screens with the context of this one."""

    screen_context: ScreenContext

    def __init__(self) -> None:
        super().__init__()
        self.searches: dict[str, SearchController[Any, Any]] = {}  # those that were opened

    def is_refused(self, action: str) -> bool:
        """Return True and notify the user if an action is impossible for the selected row."""
        reason = find_obstacle(action, self.screen_context.state)
        if reason:
            say(self, reason, severity="warning")
        return bool(reason)

    @work(group="generate", exclusive=True)
    async def action_generate(self) -> None:
        from workbench.tui.screens.scenarios_screen import generate  # seldom needed, and with the engine

        if not self.is_refused("generate"):
            await generate(self, self.screen_context, self.screen_context.state.browser.selected_row)

    @work(group="coverage", exclusive=True)
    async def action_coverage(self) -> None:
        from workbench.tui.screens.coverage_screen import show_coverage  # seldom needed, and with the engine

        await show_coverage(self, self.screen_context)

    @work(group="import", exclusive=True)
    async def action_import(self) -> None:
        from workbench.tui.screens.import_screen import import_sessions  # seldom needed, and with the engine

        await import_sessions(self, self.screen_context)

    @work(group="new_target", exclusive=True)
    async def action_add_target(self) -> None:
        from workbench.tui.dialogs.dialogs import add_target  # seldom needed

        await add_target(self, self.screen_context)

    def action_open_flaky(self) -> None:
        from workbench.tui.screens.flaky_screen import open_flaky_cases  # seldom needed

        open_flaky_cases(self, self.screen_context)

    def action_shrink(self) -> None:
        case = self.screen_context.state.selected_case
        if case is None:
            say(self, "select a failed case to shrink", severity="warning")
        elif not self.is_refused("shrink"):
            self.open_search("shrink", case)

    def action_why(self) -> None:
        case = self.screen_context.state.selected_case
        if case is None:
            say(self, "select a case: parts of its agent's instruction are left out", severity="warning")
        elif not self.is_refused("why"):
            self.open_search("why", case)

    def open_search(self, key: str, case: CaseKey) -> None:
        """Show the search for the cause of a failure that this key opens: `shrink` or `why`."""
        from workbench.tui.screens.cause_searches import CONTROLLERS  # seldom needed, and with the engine

        if key not in self.searches:
            self.searches[key] = CONTROLLERS[key](self, self.screen_context)
        self.searches[key].open(case)
