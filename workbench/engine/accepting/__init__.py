"""Accepting: what the agent did becomes what is expected of it, whole or one difference at a time.

A `Hunk` is one difference; `accept` writes hunks into the document of the case, in the form that the case has. Whether
it may be done at all is `refusal`'s to say. Nothing here saves, runs or scores anything.
"""

from workbench.engine.accepting.accept import accept
from workbench.engine.accepting.hunks import Hunk, HunkKey, Refused, hunks, refusal, refusal_of_whole, turn_comparisons

__all__ = ["Hunk", "HunkKey", "Refused", "accept", "hunks", "refusal", "refusal_of_whole", "turn_comparisons"]
