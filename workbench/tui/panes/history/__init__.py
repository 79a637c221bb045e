"""The pane `history`."""
