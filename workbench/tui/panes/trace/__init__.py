"""The pane `trace`."""
