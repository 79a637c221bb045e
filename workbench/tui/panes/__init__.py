"""Panes: each connects one state, the widgets that show it, and the backend."""
