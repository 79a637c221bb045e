"""Accepting: what the agent did becomes what is expected of it, whole or one difference at a time.

A `Hunk` is one difference, and whether it may be accepted is `refusal`'s to say. `accept` in the module of that name
writes hunks into the document of the case, in the form that the case has. Nothing here saves, runs or scores anything.
"""

from workbench.engine.accepting.hunks import (
    Hunk,
    HunkKey,
    Refused,
    hunks,
    refusal,
    refusal_of_hunks,
    refusal_of_whole,
    turn_comparisons,
    why_unknown,
)

__all__ = [
    "Hunk",
    "HunkKey",
    "Refused",
    "hunks",
    "refusal",
    "refusal_of_hunks",
    "refusal_of_whole",
    "turn_comparisons",
    "why_unknown",
]
