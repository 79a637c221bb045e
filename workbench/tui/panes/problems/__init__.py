"""The pane `problems`."""
