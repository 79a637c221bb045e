"""The main screen, its controllers, and the dialogs above it."""
