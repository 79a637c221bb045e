"""Watching: what is recorded, what a change affects, and that nothing is missed."""
