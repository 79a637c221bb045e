"""Screens: the main one, and what is laid over it for a moment."""
