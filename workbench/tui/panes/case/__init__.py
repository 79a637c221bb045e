"""The pane `case`."""
