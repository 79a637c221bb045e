"""What an adapter is: the bridge between the worker and one kind of agent.

An adapter is a module beside this one, named after the target's kind, with a class `Adapter`. The worker makes one in
each process. Values that cross the bridge are plain dicts in the JSON shape of the types in `workbench.model`
(snake_case keys), because the worker imports nothing of ours.

Whatever an adapter raises ends the case: `LoadError` and `AgentFault` with their own message; any other exception as
the agent's, with its traceback and, where it is or carries a 429, a 5xx or a lost connection, as infrastructure.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable

TYPE_CHECKING = False
if TYPE_CHECKING:  # the import of typing costs more than a trivial agent
    from typing import Any, Dict, List, Optional, Tuple, Union

    from ..asking import Tools

EmitSpan = Callable[["Dict[str, Any]"], None]
"""Takes a span in the shape of `workbench.model.trace.Span`. May be called from any thread. Not to be called where the
session was opened with `collect_spans` false."""


class LoadError(Exception):
    """The agent is not there or cannot be imported. The message is one sentence for people."""


def not_installed(package: str, *, extra: str) -> LoadError:
    """What to raise where a framework is missing for the target's interpreter."""
    return LoadError(
        f"{package} is not installed for this interpreter ({sys.executable}): "
        f"install it there, or the extra `{extra}` of the workbench"
    )


class AgentFault(Exception):
    """The agent did its work wrongly: gave a value of the wrong shape, or nothing. `kind` is that of the failure."""

    def __init__(self, message: str, *, kind: str = "agent") -> None:
        super().__init__(message)
        self.kind = kind


class Session:
    """One conversation with the agent. Methods may be plain or `async`: a plain one needs no event loop."""

    def turn(self, content: Dict[str, Any], index: int) -> Union[Dict[str, Any], Awaitable[Dict[str, Any]]]:
        """Give the agent one user content; `index` counts turns from 0.

        Returns a TurnResult (`invocation`, `duration_seconds`, `inference_calls`, `usage`). Spans that are known only
        when the turn is over may come with it as a list under `spans` instead of through `emit_span`.
        """
        raise NotImplementedError

    def state(self) -> Union[Optional[Dict[str, Any]], Awaitable[Optional[Dict[str, Any]]]]:
        """The state of the conversation between turns; None where there is none."""
        raise NotImplementedError

    def describe(self) -> Dict[str, Any]:
        """What the agent is, told without running it: an AgentDescription. Asked before a turn or between two."""
        raise NotImplementedError

    def close(self) -> Union[Dict[str, Any], Awaitable[Dict[str, Any]]]:
        """End the conversation. Returns `{"final_state": dict or None}`."""
        raise NotImplementedError


class Adapter:
    """One agent in one process. `target` is what the engine tells of a Target (`target` in PROTOCOL.md)."""

    preload: Tuple[str, ...] = ()
    """Modules that the process imports before it forks, where more than one case waits. Never the target's own."""

    blocking: bool = False
    """Whether `Session.turn` runs the agent's code synchronously: a process shared by cases calls it in a thread."""

    waits_only: bool = False
    """Whether sessions only ever wait for others and never hold up the event loop, as no code of an agent runs in the
    process: what is told of them may then be told together with what comes in the same round of the loop."""

    def __init__(self, target: Dict[str, Any]) -> None:
        self.target = target

    def import_own(self) -> None:
        """Import what the adapter needs for itself, before the agent's folders are on `sys.path` and before the fork: a
        file of the agent may have any name. It must start no thread. What is missing is not reported here but by
        `load`."""

    def import_roots(self) -> List[str]:
        """Folders to put first on `sys.path` before `load`, the first one first. Their modules are never taken from
        bytecode and never imported before the fork."""
        return [self.target["path"]]

    def env_files(self) -> List[str]:
        """`.env` files to load before `load`; of a key in several the first counts. Missing ones are skipped."""
        return [self.target["env_file"]] if self.target.get("env_file") else []

    def warm_up(self) -> None:
        """Run the framework once on a dummy, so that what it imports late is imported before the fork.

        Must leave no thread, client, open file or event loop behind.
        """

    def make_room(self) -> None:
        """Undo what the adapter did for itself alone: code of the user that is none of the agent's, a metric, is to run
        in this process, with `.env` loaded."""

    def load(self) -> None:
        """Import the user's code, with the roots on `sys.path` and `.env` loaded. Raises LoadError."""
        raise NotImplementedError

    def open(
        self, session: Dict[str, Any], emit_span: EmitSpan, tools: Optional[Tools] = None
    ) -> Union[Session, Awaitable[Session]]:
        """Open a fresh session: `session` has `app_name`, `user_id`, `session_id` (or None), `state`, `collect_spans`,
        `announce_spans` (emit a span when its step begins too, with a start and no end).

        Where there are `tools` the agent's calls of those that these want are asked about first, and answered for
        instead of made where the engine says so. A tool that they want and the agent has not raises LoadError.
        Sessions of one process may be open at the same time and share nothing through the adapter.
        """
        raise NotImplementedError
