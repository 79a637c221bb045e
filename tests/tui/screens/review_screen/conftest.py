"""A project whose cases differ from their expectations."""

from tests.tui.panes.test_diff_pane import project

__all__ = ["project"]
