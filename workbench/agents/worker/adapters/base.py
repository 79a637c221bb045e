"""The interface of adapters: the bridge between the worker and one kind of agent.

An adapter is a module in this folder, named after the target's kind, with a class `Adapter`; only that of recorded
agents is here. The worker creates one in each process. Values are plain dicts in the JSON shape of the types in
`workbench.model` (snake_case keys), because the worker does not import `workbench`.

Any exception of an adapter ends the case: `LoadError` and `AgentFault` with their own message, others as the agent's,
with its traceback. Exceptions that are or contain a 429, a 5xx or a lost connection count as infrastructure.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Awaitable, Callable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable, Protocol

    class InterceptedTools(Protocol):
        """The tools of one session whose calls are decided by the engine. Any thread may call the methods."""

        names: dict[str, str | None]
        """Intercepted tools: the place in the configuration that names them, or None if the agent need not have
        them."""

        functions: dict[str, str]
        """Locations of functions by tool name: `module:name`."""

        def wants(self, name: str, *, is_plain: bool = True) -> bool:
            """Return True if calls of a tool are intercepted. Tools that run agents are intercepted only by name."""

        def make_unknown_tool_error(self, name: str, known: Iterable[str], *, expected: str) -> LoadError:
            """Return the error for a configured tool that does not exist."""

        def require_known(self, known: Iterable[str]) -> None:
            """Raise LoadError for a configured tool that is not among these, which are all that the agent has."""

        def ask(self, tool: str, args: dict[str, Any], declaration: dict[str, Any]) -> dict[str, Any]:
            """Request a decision about a call; blocks."""

        async def ask_later(self, tool: str, args: dict[str, Any], declaration: dict[str, Any]) -> dict[str, Any]:
            """Request a decision about a call, in a coroutine."""

        def report_outcome(self, answer: dict[str, Any], **outcome: Any) -> None:
            """Report the outcome of a call (`response`, `error`, `actions`) if the engine wants it.

            A response that JSON cannot hold is replaced by `unfit`, the reason.
            """


EmitSpan = Callable[["dict[str, Any]"], None]
"""Takes a span in the shape of `workbench.model.trace.Span`, from any thread. Not called if `collect_spans` is
False."""


class LoadError(Exception):
    """The agent does not exist or cannot be imported. The message is one sentence for people."""


def make_not_installed_error(package: str, *, extra: str) -> LoadError:
    """Return the error for a framework that is missing in the target's interpreter."""
    return LoadError(
        f"{package} is not installed for this interpreter ({sys.executable}): "
        f"install it there, or the extra `{extra}` of the workbench"
    )


class AgentFault(Exception):
    """The agent returned a value of the wrong shape, or nothing. `kind` is that of the failure."""

    def __init__(self, message: str, *, kind: str = "agent") -> None:
        super().__init__(message)
        self.kind = kind


class Session:
    """One conversation with the agent. Methods may be plain or `async`; a plain one needs no event loop."""

    def turn(self, content: dict[str, Any], index: int) -> dict[str, Any] | Awaitable[dict[str, Any]]:
        """Give the agent one user message; `index` counts turns from 0.

        Return a TurnResult (`invocation`, `duration_seconds`, `inference_calls`, `usage`). Spans that are known only at
        the end of the turn may be returned as a list under `spans` instead of through `emit_span`.
        """
        raise NotImplementedError

    def state(self) -> dict[str, Any] | Awaitable[dict[str, Any] | None] | None:
        """Return the session state between turns, or None."""
        raise NotImplementedError

    def describe(self) -> dict[str, Any]:
        """Return an AgentDescription without running the agent. Called before a turn or between two."""
        raise NotImplementedError

    def close(self) -> dict[str, Any] | Awaitable[dict[str, Any]]:
        """End the conversation. Return `{"final_state": dict or None}`."""
        raise NotImplementedError


class Adapter:
    """One agent in one process. `target` is the `target` of PROTOCOL.md."""

    preload: tuple[str, ...] = ()
    """Modules to import before the fork if several cases follow. Never the target's own."""

    blocking: bool = False
    """True if `Session.turn` runs the agent's code synchronously: a shared process calls it in a thread."""

    is_outside: bool = False
    """True if the agent runs in a process of its own: HTTP clients in the worker are not the agent's."""

    waits_only: bool = False
    """True if sessions only wait for other processes and never block the event loop. Messages of the same round of the
    loop may then be sent together."""

    def __init__(self, target: dict[str, Any]) -> None:
        self.target = target

    def import_libraries(self) -> None:
        """Import the adapter's own libraries before the agent's folders are on `sys.path` and before the fork.

        A file of the agent may have any name. No thread may be started. `load` reports what is missing.
        """

    def import_model_libraries(self) -> None:
        """Import what only sessions need whose model calls are intercepted. See `import_libraries`.

        The agent's folders may be on `sys.path` already.
        """

    def import_roots(self) -> list[str]:
        """Return folders to put first on `sys.path` before `load`. Their modules are always compiled from source and
        never imported before the fork."""
        return [self.target["path"]]

    def env_files(self) -> list[str]:
        """Return `.env` files to load before `load`; the first definition of a key counts. Missing files are
        skipped."""
        return [self.target["env_file"]] if self.target.get("env_file") else []

    def late_imports(self) -> list[str]:
        """Return libraries that the loaded agent imports at its first call: they are imported before the fork."""
        return []

    def import_library(self, name: str) -> None:
        """Import a library before the agent, in the way in which the agent would."""
        importlib.import_module(name)

    def run_warmup(self) -> None:
        """Run the framework once on a dummy, so that its late imports happen before the fork.

        Must leave no thread, client, open file or event loop behind.
        """

    def prepare_for_metrics(self) -> None:
        """Undo what the adapter did for itself alone: a custom metric is about to run in this process, with `.env`
        loaded."""

    def intercept_models(self) -> None:
        """Wrap models that have an interface of their own, so that their calls are recorded and replayed there.

        Called for each session whose model calls are intercepted, before `open`. HTTP clients are wrapped elsewhere.
        """

    def load(self) -> None:
        """Import the user's code, with the roots on `sys.path` and `.env` loaded. Raises LoadError."""
        raise NotImplementedError

    def open(
        self, session: dict[str, Any], emit_span: EmitSpan, tools: InterceptedTools | None = None
    ) -> Session | Awaitable[Session]:
        """Open a session: `session` has `app_name`, `user_id`, `session_id` (or None), `state`, `collect_spans`, and
        `announce_spans` (also emit a span when its step begins, with a start and no end). It has `instructions` (texts
        by agent and field) only if a description of this adapter has them.

        `tools` decides about tool calls before they are made. A configured tool that the agent does not have raises
        LoadError. Several sessions of one process may be open and share nothing through the adapter.
        """
        raise NotImplementedError


class RecordedAdapter(Adapter):
    """A target without an agent. Its worker only runs custom metrics."""

    def load(self) -> None:
        raise LoadError(f"target {self.target['name']!r} is a recording: there is no agent to talk to")


# What adapters read alike: outages, and counts of tokens.

_PASSING_CODES = frozenset({"408", "425", "429", "RESOURCE_EXHAUSTED", "UNAVAILABLE", "INTERNAL", "DEADLINE_EXCEEDED"})

USAGE_FIELDS = {
    "prompt": "prompt_token_count",
    "tool_use_prompt": "tool_use_prompt_token_count",
    "candidates": "candidates_token_count",
    "thoughts": "thoughts_token_count",
    "cached": "cached_content_token_count",
    "total": "total_token_count",
}
"""The fields of google.genai for counts of tokens, by our names."""


def classify_status(code: Any) -> str:
    """Return the kind of failure for an HTTP status, or a code of Google's services: whether another try may help."""
    text = str(code)
    is_passing = text in _PASSING_CODES or (len(text) == 3 and text.isdecimal() and text[0] == "5")
    return "infrastructure" if is_passing else "agent"


def to_camel(name: str) -> str:
    """Return the camelCase name that Google's JSON has for a Python name."""
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


# Limits on what is kept of one turn.

MOST_STEPS = 10_000
"""Maximum number of tool calls, tool responses, and spans of each kind that are kept of one turn."""

MOST_TEXTS = 100_000
"""Maximum number of texts of one turn before its response; agents that report more are refused."""

LEFT_OUT = "workbench.spans_left_out"
"""The attribute of an outermost span with the number of spans of its turn that are not kept."""


def explain_truncation(calls: int, responses: int = 0) -> str | None:
    """Return why the calls of a turn cannot be judged: not all were kept. None if all are."""
    if calls > MOST_STEPS:
        return f"the agent made {calls:,} tool calls in one turn; only the first {MOST_STEPS:,} are kept"
    if responses > MOST_STEPS:
        return f"the tools gave {responses:,} responses in one turn; only the first {MOST_STEPS:,} are kept"
    return None


def check_texts(count: int) -> None:
    """Raise AgentFault if a turn has more texts before its response than are kept."""
    if count > MOST_TEXTS:
        raise AgentFault(f'"intermediate_responses" has {count:,} items, expected at most {MOST_TEXTS:,}')


class SpanLimit:
    """Admits at most MOST_STEPS spans of each kind in a turn, and always the outermost ones."""

    def __init__(self) -> None:
        self._turn: Any = None
        self._admitted: dict[str, set[str]] = {}
        self._left_out = 0

    def admit(self, span: dict[str, Any]) -> dict[str, Any] | None:
        """Return the span to send; None if its turn has too many. A span may come when it begins and when it ends."""
        if span["turn"] != self._turn:
            self._turn, self._admitted, self._left_out = span["turn"], {}, 0
        if span.get("parent_id") is None:
            count = self._left_out
            return {**span, "attributes": {**(span.get("attributes") or {}), LEFT_OUT: count}} if count else span
        admitted = self._admitted.setdefault(span["kind"], set())
        if span["id"] not in admitted:
            if len(admitted) >= MOST_STEPS:
                self._left_out += span.get("start") is None or span.get("end") is not None  # once, not at its begin
                return None
            admitted.add(span["id"])
        return span
