"""The actions of the main screen that open a screen of their own. Each is seldom needed, and imported when it is."""

from __future__ import annotations

from textual import work

from workbench.tui.screen_context import ScreenContext
from workbench.tui.widgets.row_lists import StyledScreen


class ScreenActions(StyledScreen[None]):
    """Opens other screens with the context of this one."""

    screen_context: ScreenContext

    @work(group="generate", exclusive=True)
    async def generate(self) -> None:
        """Generate scenarios for the selected set or agent with a model."""
        from workbench.tui.screens.scenarios_screen import generate  # seldom needed, and with the engine

        await generate(self, self.screen_context, self.screen_context.state.browser.selected_row)

    @work(group="coverage", exclusive=True)
    async def action_coverage(self) -> None:
        """Show what the cases reach."""
        from workbench.tui.screens.coverage_screen import show_coverage  # seldom needed, and with the engine

        await show_coverage(self, self.screen_context)

    @work(group="import", exclusive=True)
    async def action_import(self) -> None:
        """Keep sessions of production as cases of the selected set."""
        from workbench.tui.screens.import_screen import import_sessions  # seldom needed, and with the engine

        await import_sessions(self, self.screen_context)

    @work(group="new_target", exclusive=True)
    async def action_add_target(self) -> None:
        """Add an agent to workbench.toml."""
        from workbench.tui.dialogs.dialogs import add_target  # seldom needed

        await add_target(self, self.screen_context)

    def action_open_flaky(self) -> None:
        """List the flaky cases and those in quarantine."""
        from workbench.tui.screens.flaky_screen import open_flaky_cases  # seldom needed

        open_flaky_cases(self, self.screen_context)
