"""The eval sets: the list of targets, sets and cases, its filter, and what can be done with it."""

from workbench.tui.panes.browser.pane import BrowserPane

__all__ = ["BrowserPane"]
