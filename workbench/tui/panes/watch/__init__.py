"""The pane `watch`."""
