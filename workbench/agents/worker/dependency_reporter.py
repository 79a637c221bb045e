"""Reports recorded dependencies to the engine: the `dependencies` messages of PROTOCOL.md."""

from __future__ import annotations

from .recording import hooks
from .recording.recorder import quiet
from .wire import encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .recording.recorder import Row


_inherited: tuple[int, int, bytes] | None = None
"""The first report of all children: edition, position, and an encoded message without a session."""


def encode_inherited() -> None:
    """Encode the recorded rows before a fork. Doing it in each child would copy many memory pages."""
    global _inherited  # noqa: PLW0603 - there is one process
    recorder = hooks.get_recorder()
    if recorder is not None:
        rows, position = recorder.get_rows_before_fork()
        _inherited = (recorder.edition, position, encode(_make_message(None, rows, complete=False, tainted=None)))


class DependencyReporter:
    """Reports new rows to each session, including actions of other sessions in the same process."""

    def __init__(self) -> None:
        recorder = hooks.get_recorder()
        assert recorder is not None, "a process records before it serves"
        self._recorder = recorder
        self._positions: dict[int, int] = {}

    def add_agent_writes(self, request: dict[str, Any]) -> None:
        """Take over from the first message of a session what agents wrote earlier."""
        left = request.get("left") or {}
        self._recorder.add_agent_writes(left.get("there", {}), gone=left.get("gone", {}))

    def encode_messages(self, session: int, *, complete: bool = False) -> list[bytes]:
        """Return encoded messages. The first message of a session is preceded by the rows from before the fork."""
        lines = []
        if session not in self._positions and _inherited is not None and _inherited[0] == self._recorder.edition:
            _, self._positions[session], line = _inherited
            lines.append(line.replace(b'"session":null', b'"session":%d' % session, 1))
        return [*lines, encode(self.build_message(session, complete=complete))]

    def build_message(self, session: int, *, complete: bool = False) -> dict[str, Any]:
        """Build the message with the new rows of a session. With `complete` it is the last one."""
        with quiet:
            rows, self._positions[session] = self._recorder.read_rows(self._positions.get(session, 0))
            if complete:
                del self._positions[session]
                rows = [*rows, *self._recorder.build_final_rows()]
        return _make_message(session, rows, complete=complete, tainted=self._recorder.tainted)


def _make_message(session: int | None, rows: list[Row], *, complete: bool, tainted: str | None) -> dict[str, Any]:
    return {"type": "dependencies", "session": session, "complete": complete, "rows": rows, "tainted": tainted}
