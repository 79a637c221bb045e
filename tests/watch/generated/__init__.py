"""Projects and edits made at random, and what a fresh run of everything gives: the proof of watching."""
