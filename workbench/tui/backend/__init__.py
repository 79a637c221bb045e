"""What the screen asks of the engine and the store, off the event loop. Nothing else of the TUI calls them."""
