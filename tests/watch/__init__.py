"""Tests of the watch: its file events, its decisions, and the proof that it misses no change."""
