"""The pane `scores`."""
