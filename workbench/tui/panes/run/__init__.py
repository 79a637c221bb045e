"""The pane `run`."""
