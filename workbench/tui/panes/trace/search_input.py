"""The line in which the user writes what to look for in the trace."""

from __future__ import annotations

from workbench.tui.widgets.find_input import FindInput


class SearchInput(FindInput):
    """Hidden while nothing is looked for. Enter goes to the first step found, escape ends the search."""

    def __init__(self) -> None:
        super().__init__(placeholder="text in names, requests, responses", compact=True, select_on_focus=True)
        self.display = False

    def open(self) -> None:
        """Show the line and let the user write."""
        self.display = True
        self.focus()

    def close(self) -> None:
        """Empty the line and hide it."""
        self.value = ""
        self.display = False
