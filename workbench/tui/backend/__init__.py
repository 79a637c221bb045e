"""Calls of the screen to the engine and the store, off the event loop. No other part of the TUI calls them."""
