"""What is told to the engine of what was recorded: the `dependencies` messages of PROTOCOL.md."""

from __future__ import annotations

from ..wire import encode
from . import hooks
from .recorder import quiet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple

    from .recorder import Row

_inherited: Optional[Tuple[int, int, bytes]] = None
"""What all children tell first: edition, position, and a message without a session, encoded."""


def settle() -> None:
    """Put into words before the fork what was recorded: in each child many pages of memory would be copied for it."""
    global _inherited  # noqa: PLW0603 - there is one process
    recorder = hooks.active()
    if recorder is not None:
        rows, position = recorder.rows_before_fork()
        _inherited = (recorder.edition, position, encode(_message(None, rows, complete=False, tainted=None)))


class Teller:
    """Tells each session what it does not know yet; of what others in the same process did, too."""

    def __init__(self) -> None:
        recorder = hooks.active()
        assert recorder is not None, "a process records before it serves"
        self._recorder = recorder
        self._positions: Dict[int, int] = {}

    def heed(self, request: Dict[str, Any]) -> None:
        """What a message that begins a session says of what was before."""
        left = request.get("left") or {}
        self._recorder.left_by_others(left.get("there", {}), gone=left.get("gone", {}))

    def lines(self, session: int, *, complete: bool = False) -> List[bytes]:
        """The message, encoded; before the first one another with what was recorded before this process was forked."""
        lines = []
        if session not in self._positions and _inherited is not None and _inherited[0] == self._recorder.edition:
            _, self._positions[session], line = _inherited
            lines.append(line.replace(b'"session":null', b'"session":%d' % session, 1))
        return [*lines, encode(self.message(session, complete=complete))]

    def message(self, session: int, *, complete: bool = False) -> Dict[str, Any]:
        """What is new for a session; all of it, and the last message about it, where it is `complete`."""
        with quiet:
            rows, self._positions[session] = self._recorder.rows_since(self._positions.get(session, 0))
            if complete:
                del self._positions[session]
                rows = [*rows, *self._recorder.rows_at_the_end()]
        return _message(session, rows, complete=complete, tainted=self._recorder.tainted)


def _message(session: Optional[int], rows: List[Row], *, complete: bool, tainted: Optional[str]) -> Dict[str, Any]:
    return {"type": "dependencies", "session": session, "complete": complete, "rows": rows, "tainted": tainted}
