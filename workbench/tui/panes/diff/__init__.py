"""The pane `diff`."""
