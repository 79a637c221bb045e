"""A walk through cases that did not pass: which one is looked at, what was decided, what can be taken back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from workbench.model.keys import CaseKey
from workbench.tui.state.blocks import BLANK, Block, Whole
from workbench.tui.state.pieces import Line, Piece, Tone, plural, safe_line


class Decision(Enum):
    """What became of a case in the walk."""

    ACCEPTED = "accepted"  # nothing of it differs any more
    PARTLY = "accepted in part"
    SKIPPED = "skipped"
    REFUSED = "refused"

    @property
    def tone(self) -> Tone:
        """How it is shown."""
        return {Decision.ACCEPTED: Tone.PASSED, Decision.REFUSED: Tone.ERROR}.get(self, Tone.WARNING)


@dataclass(slots=True)
class ReviewWalk:
    """`keys` in the order of the walk; past the last of them it is over, and is summed up."""

    keys: Sequence[CaseKey]
    place: int = 0
    decisions: dict[int, Decision] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)  # why cases were refused
    accepted: list[int] = field(default_factory=list)  # one entry for each edit, the newest last

    @property
    def key(self) -> CaseKey | None:
        """The case that is looked at; None where the walk is over."""
        return self.keys[self.place] if self.place < len(self.keys) else None

    def accept(self, *, is_done: bool) -> None:
        """Something of the case was accepted; where that `is_done`, go on."""
        self.accepted.append(self.place)
        self.decisions[self.place] = Decision.ACCEPTED if is_done else Decision.PARTLY
        self.reasons.pop(self.place, None)
        if is_done:
            self.place += 1

    def refuse(self, reason: str) -> None:
        """The case could not be accepted; it stays in sight with the reason."""
        self.decisions.setdefault(self.place, Decision.REFUSED)
        self.reasons[self.place] = reason

    def skip(self) -> None:
        """Leave the case as it is, and go on."""
        if self.key is not None:
            self.decisions.setdefault(self.place, Decision.SKIPPED)
            self.place += 1

    def back(self) -> bool:
        """Go to the case before; False where there is none."""
        if self.place == 0:
            return False
        self.place -= 1
        return True

    def undo(self) -> CaseKey | None:
        """Go back to the case that was accepted last, as if it had not been; None where there is none."""
        if not self.accepted:
            return None
        self.place = self.accepted.pop()
        if self.place in self.accepted:
            self.decisions[self.place] = Decision.PARTLY
        else:
            del self.decisions[self.place]
        return self.keys[self.place]

    def progress(self) -> Line:
        """Where the walk is, for the line above."""
        key = self.key
        counts = Counter(self.decisions.values())
        told = ", ".join(f"{counts[decision]} {decision.value}" for decision in Decision if counts[decision])
        if key is None:
            return (Piece("review is over", Tone.STRONG), Piece(f"  {told}"))
        decision = self.decisions.get(self.place)
        pieces = [Piece(f"review {self.place + 1} of {len(self.keys)}  ", Tone.STRONG), Piece(safe_line(str(key)))]
        if decision is not None:
            pieces.append(Piece(f"  {decision.value}", decision.tone))
        return (*pieces, Piece(f"  · {told}" if told else "", Tone.MUTED))

    def reason(self) -> str | None:
        """Why the case that is looked at was refused."""
        return self.reasons.get(self.place)

    def summary(self) -> tuple[Block, ...]:
        """What was decided, case by case."""
        of = f"{len(self.decisions)} of " if len(self.decisions) < len(self.keys) else ""
        blocks: list[Block] = [Whole.of(f"{of}{plural(len(self.keys), 'case')} looked through", Tone.HEADING), BLANK]
        for place, key in enumerate(self.keys):
            decision = self.decisions.get(place)
            word = Piece(
                f"{decision.value if decision else 'not looked at'}  ", decision.tone if decision else Tone.MUTED
            )
            why = f"  {safe_line(self.reasons[place])}" if place in self.reasons else ""
            blocks.append(Whole((word, Piece(safe_line(str(key))), Piece(why, Tone.MUTED)), indent=2, hang=2))
        blocks += [BLANK, Whole.of("u takes back what was accepted last; escape ends the review.", Tone.MUTED)]
        return tuple(blocks)
