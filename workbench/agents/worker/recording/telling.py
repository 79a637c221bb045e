"""What is told to the engine of what was recorded: the `dependencies` messages of PROTOCOL.md."""

from __future__ import annotations

from . import hooks
from .recorder import quiet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict


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

    def message(self, session: int, *, complete: bool = False) -> Dict[str, Any]:
        """What is new for a session; all of it, and the last message about it, where it is `complete`."""
        with quiet:
            rows, self._positions[session] = self._recorder.rows_since(self._positions.get(session, 0))
            if complete:
                del self._positions[session]
                rows = [*rows, *self._recorder.rows_at_the_end()]
        tainted = self._recorder.tainted
        return {"type": "dependencies", "session": session, "complete": complete, "rows": rows, "tainted": tainted}

    def forget(self, session: int) -> None:
        """A session was cancelled: nothing more is told of it."""
        self._positions.pop(session, None)
