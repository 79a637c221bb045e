"""Dialogs of panes and screens."""
