"""Dialogs that panes and screens ask questions with."""
