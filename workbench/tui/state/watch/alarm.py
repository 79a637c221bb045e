"""What has to be said when a case that passed fails: once for each change, however many cases it broke."""

from __future__ import annotations

from dataclasses import dataclass, field

from workbench.model.keys import CaseKey
from workbench.model.results import CaseStatus
from workbench.tui.state.pieces import safe_line

_PATIENCE = 1.0  # seconds after the first case in which others may join it
_MOST_NAMED = 3


@dataclass
class Alarm:
    """The cases of one change that passed before and do not any longer.

    `is_complete`: no more will come, or none that belongs to this change.
    """

    is_complete: bool = False
    _cases: dict[CaseKey, CaseStatus] = field(default_factory=dict)
    _since: float | None = None
    _has_rung: bool = False

    def add(self, case: CaseKey, status: CaseStatus, *, now: float) -> None:
        """A case does not pass any longer."""
        self._cases[case] = status
        if self._since is None:
            self._since = now

    def due(self, *, now: float) -> str | None:
        """What is to be said now; None where nothing is, or it has been said."""
        if self._has_rung or self._since is None:
            return None
        if not self.is_complete and now - self._since < _PATIENCE:
            return None
        self._has_rung = True
        names = [safe_line(case.eval_id, width=60) for case in self._cases]
        if len(names) == 1:
            (status,) = self._cases.values()
            word = "FAILED" if status is CaseStatus.FAILED else status.value.replace("_", " ")
            return f"{names[0]} passed before and is {word} now"
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        return f"{len(names):,} cases passed before and do not now: {', '.join(names[:_MOST_NAMED])}{more}"
