"""The pane `chat`."""
