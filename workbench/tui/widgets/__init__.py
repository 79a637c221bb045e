"""Widgets that show data and post the actions of the user. None uses the disk, the engine or the application."""
