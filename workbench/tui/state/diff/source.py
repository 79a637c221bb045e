"""What a diff is made of, and how much of it is wanted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from workbench.engine.accepting import Hunk
from workbench.model.evalset import Content, EvalCase
from workbench.model.results import CaseResult, TurnResult
from workbench.tui.state.blocks import Block
from workbench.tui.state.diff.costs import Cost
from workbench.tui.state.pieces import MOST_CHARACTERS


class Level(Enum):
    """How much is shown of what is as expected."""

    EVERYTHING = "everything"
    FOLDED = "equal turns folded"
    DIFFERENCES = "only differences"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffSource:
    """A case beside what the agent did: `turns` so far, `result` None while it has not been judged.

    `spoken` is what a simulated user has said and the agent not answered yet; `is_live` whether the agent runs. `case`
    is None where it could not be read. `head` stands before all else. At most `most` characters are shown of one text
    (None: all). `lacks_expected`: of what the turns may have been held against nothing is stored. `is_row`: it is a row
    of a dataset, where a side without trajectory tells nothing of calls.
    """

    case: EvalCase | None
    turns: Sequence[TurnResult] = ()
    spoken: Content | None = None
    is_live: bool = False
    result: CaseResult | None = None
    head: tuple[Block, ...] = ()
    level: Level = Level.EVERYTHING
    most: int | None = MOST_CHARACTERS
    lacks_expected: bool = False
    is_row: bool = False

    @property
    def is_recorded(self) -> bool:
        """Whether it is a row that was judged as it stands; see CaseResult."""
        return self.is_row and self.result is not None and not self.result.execution.duration_seconds

    @property
    def is_scenario(self) -> bool:
        """Whether a simulated user holds the conversation."""
        return self.case is not None and self.case.conversation_scenario is not None


@dataclass(frozen=True, slots=True)
class DiffContent:
    """Blocks, and for each the difference that it belongs to (None: to none), as a place in `hunks`.

    `hunks` are the differences in the order in which they are shown, `costs` what each cost.
    """

    blocks: tuple[Block, ...] = ()
    owners: tuple[int | None, ...] = ()
    hunks: tuple[Hunk, ...] = ()
    costs: tuple[Cost, ...] = ()
