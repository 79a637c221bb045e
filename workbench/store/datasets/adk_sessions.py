"""Sessions that ADK stored or exported, as conversations with what the agent did.

Three layouts of SQLite files are read, none of them through ADK (source: google-adk 2.13, `google/adk/sessions`):
`DatabaseSessionService` since 1.22 (`schemas/v1.py`, events as JSON) and before it (`schemas/v0.py`, a column for each
field), and `SqliteSessionService`. Exports are JSON as `adk web` downloads them and `adk run --save_session` writes
them. The older layout has the actions of events as pickles. A pickle can run code when it is loaded, so these columns
are never read; `adk migrate session` of a trusted store converts them.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from workbench.model.evalset import Content, Invocation, InvocationEvent, InvocationEvents, Part
from workbench.model.text import pluralise
from workbench.store.datasets.message_rows import describe_kind
from workbench.store.errors import StoreError
from workbench.store.files import read_signature, real_path
from workbench.store.json.json_path import get_spelled

# Sessions, independent of where they come from


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSession:
    """A session of an agent with its users. `began` is None if unknown.

    In `turns` the expected side is what happened; a turn without intermediate data has unknown tool calls. `state` is
    the known state at the start. `notes` say what is unknown or left out. `problem`: why it cannot be a case.
    `has_own_id` is False if the id comes from the position in a file: another file may have the same id.
    """

    id: str
    app: str = ""
    user: str = ""
    began: datetime | None = None
    turns: tuple[Invocation, ...] = ()
    state: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    problem: str | None = None
    has_own_id: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionHead:
    """A stored session before its events are read. `updated` is None if unknown."""

    id: str
    app: str
    user: str
    updated: datetime | None


NO_USER_MESSAGE = "has no message of a user"


def name_turns(numbers: Sequence[int]) -> str:
    """Name turns by their ascending numbers: `turn 2`, `turns 1, 3 to 7`."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][-1] + 1 == number:
            ranges[-1][1:] = [number]
        else:
            ranges.append([number])
    shown = [f"{first} to {rest[0]}" if rest else str(first) for first, *rest in ranges]
    more = [] if len(shown) <= _MOST_RANGES else [f"and {len(shown) - _MOST_RANGES} more"]
    return f"{'turn' if len(numbers) == 1 else 'turns'} {', '.join([*shown[:_MOST_RANGES], *more])}"


_MOST_RANGES = 10


class SessionFault(ValueError):
    """A value in a session is invalid. `place` is its path in the session."""

    def __init__(self, *, place: str, found: str, expected: str) -> None:
        super().__init__(f"{place}: found {found}, expected {expected}")


def parse_time(value: Any) -> datetime | None:
    """Parse seconds since 1970, or a time in ISO format, which is UTC if it has no zone; None for anything else."""
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
        if not isinstance(value, str):
            return None
        found = datetime.fromisoformat(value)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None


# Events of ADK: one conversation

_STATE_KEY_OF_NAMES = "__session_metadata__"  # what adk web stores about a session that was named
_SHARED = ("app:", "user:")
_TEMPORARY = "temp:"


def is_adk_session(data: Any) -> bool:
    """True if a JSON value is a session of ADK: an object with events, an id, and an app or a user."""
    return (
        isinstance(data, Mapping)
        and isinstance(data.get("events"), list)
        and "id" in data
        and any(get_spelled(data, name) is not None for name in ("app_name", "user_id"))
    )


def read_adk_session(data: Mapping[str, Any]) -> SourceSession:
    """Read a session as ADK dumps it, in either spelling of its keys. A session with an invalid value has a problem."""
    state = data.get("state")
    return _read_session(
        SessionHead(
            id=str(data.get("id")),
            app=str(get_spelled(data, "app_name") or ""),
            user=str(get_spelled(data, "user_id") or ""),
            updated=parse_time(get_spelled(data, "last_update_time") or None),  # 0 is the default of ADK
        ),
        data["events"],
        state=state if isinstance(state, Mapping) else {},
    )


def _read_session(
    head: SessionHead, events: Iterable[Any], *, state: Mapping[str, Any] | None, began: datetime | None = None
) -> SourceSession:
    """Read the events of a session. `state` is that at the end; None means that its changes cannot be read."""
    try:
        return _build_session(head, [*events], state=state, began=began)
    except (SessionFault, ValidationError) as error:
        problem = str(error) if isinstance(error, SessionFault) else _describe_invalid(error)
        return SourceSession(id=head.id, app=head.app, user=head.user, began=began or head.updated, problem=problem)


def _describe_invalid(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    return f"content.{'.'.join(map(str, first['loc']))}: {first['msg']}"


def _build_session(
    head: SessionHead, events: Sequence[Any], *, state: Mapping[str, Any] | None, began: datetime | None
) -> SourceSession:
    for number, event in enumerate(events):
        if not isinstance(event, Mapping):
            raise SessionFault(place=f"events[{number}]", found=describe_kind(event), expected="an event")
    remaining, rewinds = _drop_rewound(events)
    reader = _TurnReader()
    for event in remaining:
        if not reader.read_event(event):
            break
    notes = [f"{pluralise(rewinds, 'rewind')}: the turns that were undone are left out"] if rewinds else []
    notes += reader.notes
    start: dict[str, Any] = {}
    if state is None:
        notes.append(_PICKLED)
    else:
        start, state_notes = _find_start_state(state, events, remaining)
        notes += state_notes
    turns = [turn.build(number) for number, turn in enumerate(reader.turns, start=1)]
    silent = [number for number, turn in enumerate(turns, start=1) if turn.final_response is None]
    if silent:
        notes.append(f"no response is expected in {name_turns(silent)}: the agent gave none")
    first = next((time for event in remaining if (time := parse_time(event.get("timestamp"))) is not None), None)
    return SourceSession(
        id=head.id,
        app=head.app,
        user=head.user,
        began=first or began or head.updated,
        turns=tuple(turns),
        state=start,
        notes=tuple(notes),
        problem=None if turns else reader.problem or NO_USER_MESSAGE,
    )


def _drop_rewound(events: Sequence[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], int]:
    """Return the events without those that a rewind undid, and the number of rewinds."""
    remaining: list[Mapping[str, Any]] = []
    rewinds = 0
    for event in events:
        target = get_spelled(_get_actions(event), "rewind_before_invocation_id")
        if not target:
            remaining.append(event)
            continue
        rewinds += 1
        places = (place for place, each in enumerate(remaining) if get_spelled(each, "invocation_id") == target)
        first = next(places, None)
        if first is not None:
            del remaining[first:]
    return remaining, rewinds


def _find_start_state(
    now: Mapping[str, Any], events: Sequence[Mapping[str, Any]], remaining: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, Any], list[str]]:
    """Return the state before the first message of the user was answered, and notes on what is unknown of it.

    Values that came before the first message, or with it, are known. The others are known only if no event of the
    session changed them.
    """
    first = next((event for event in remaining if _is_message_of_user(event)), None)
    given: dict[str, Any] = {}
    changed: set[str] = set()
    has_begun = False
    for event in events:
        delta = get_spelled(_get_actions(event), "state_delta")
        if isinstance(delta, Mapping):
            if has_begun:
                changed.update(delta)
            else:
                given.update(delta)
        has_begun = has_begun or event is first
    start = {key: value for key, value in now.items() if key not in changed}
    start.update(given)
    start = {
        key: value
        for key, value in start.items()
        if value is not None and not key.startswith(_TEMPORARY) and key != _STATE_KEY_OF_NAMES
    }
    unknown = sorted(key for key in changed - given.keys() if not key.startswith(_TEMPORARY))
    notes = []
    if unknown:
        notes.append(f"state that the session set is left out, its value at the start is unknown: {', '.join(unknown)}")
    if shared := sorted(key for key in start if key.startswith(_SHARED) and key not in given):
        notes.append(f"state shared by sessions has its present value: {', '.join(shared)}")
    return start, notes


def _is_message_of_user(event: Mapping[str, Any]) -> bool:
    return get_spelled(event, "author") == "user" and not event.get("partial") and _read_content(event) is not None


_PICKLED = (
    "an old store of ADK: the state is left out, and turns that the user undid may be in the case, because state and "
    "rewinds are pickles, which can run code when loaded. "
    "`adk migrate session` converts a store that you trust"
)


@dataclass
class _Turn:
    """A turn while its events are read. `said`: author, content, and whether ADK takes it for a final response."""

    invocation_id: str
    user: Content
    at: float
    said: list[tuple[str, Content, bool]] = field(default_factory=list)

    def build(self, number: int) -> Invocation:
        final = None
        for index, (_, content, is_final) in enumerate(self.said):
            if is_final and content.text(thoughts=False):
                final = index
        events = [
            InvocationEvent(author=author, content=_drop_text(content) if index == final else content)
            for index, (author, content, _) in enumerate(self.said)
        ]
        response = None if final is None else Content(role="model", parts=_list_texts(self.said[final][1]))
        return Invocation(
            invocation_id=self.invocation_id or f"turn_{number}",
            user_content=self.user,
            final_response=response,
            intermediate_data=InvocationEvents(invocation_events=events),
            creation_timestamp=self.at,
        )


def _list_texts(content: Content) -> list[Part]:
    return [Part(text=part.text) for part in content.parts or () if part.text and not part.thought]


def _drop_text(content: Content) -> Content | None:
    """Return the event of a final response without the response, as ADK writes it."""
    parts = [part for part in content.parts or () if part.function_call is not None]
    return Content(role=content.role, parts=parts) if parts else None


class _TurnReader:
    """Turns made of events. After a rewind only the remaining events are read."""

    def __init__(self) -> None:
        self.turns: list[_Turn] = []
        self.problem: str | None = None
        self._notes: dict[str, None] = {}

    @property
    def notes(self) -> list[str]:
        return [*self._notes]

    def read_event(self, event: Mapping[str, Any]) -> bool:
        """Read an event. Return False if the session cannot be continued as a case after it."""
        if event.get("partial") or _get_actions(event).get("compaction"):
            return True  # the whole text follows; a summary for the model is no message
        content = _read_content(event)
        author = str(get_spelled(event, "author") or "")
        if author == "user":
            return content is None or self._read_user(event, content)
        if content is None:
            code = get_spelled(event, "error_code")
            if code and self.turns:
                self._notes[f"turn {len(self.turns)}: the agent reported the error {code}"] = None
            return True
        if not self.turns:
            self._notes["what the agent said before the first message of the user is left out"] = None
            return True
        for part in content.parts or ():
            if kind := _name_other_part(part):
                self._notes[f"turn {len(self.turns)}: {kind} of the agent is left out"] = None
        self.turns[-1].said.append((author, content, _is_final(event, content)))
        return True

    def _read_user(self, event: Mapping[str, Any], content: Content) -> bool:
        if not self.turns and any(part.function_response is not None for part in content.parts or ()):
            self.problem = "begins with the answer to a long-running call, which is not in the session"
            return False
        invocation_id = str(get_spelled(event, "invocation_id") or "")
        at = event.get("timestamp")
        last = self.turns[-1] if self.turns else None
        if last is not None and not last.said and invocation_id and last.invocation_id == invocation_id:
            last.user = Content(role=last.user.role, parts=[*(last.user.parts or ()), *(content.parts or ())])
        else:
            self.turns.append(_Turn(invocation_id, content, float(at) if isinstance(at, int | float) else 0.0))
        return True


def _read_content(event: Mapping[str, Any]) -> Content | None:
    """Return the content of an event with parts, or the transcript of what was spoken; None without any."""
    content = event.get("content")
    if content is None:
        for name, role in (("input_transcription", "user"), ("output_transcription", "model")):
            spoken = get_spelled(event, name)
            if isinstance(spoken, Mapping) and spoken.get("text"):
                return Content.of_text(str(spoken["text"]), role=role)
        return None
    if not isinstance(content, Mapping):
        raise SessionFault(place="content of an event", found=describe_kind(content), expected="an object with parts")
    read = Content.model_validate(content)
    return read if read.parts else None


def _is_final(event: Mapping[str, Any], content: Content) -> bool:
    """True for an event that ADK takes for a final response (`Event.is_final_response`)."""
    if get_spelled(_get_actions(event), "skip_summarization") or get_spelled(event, "long_running_tool_ids"):
        return True
    parts = content.parts or []
    has_calls = any(part.function_call is not None for part in parts)
    if get_spelled(event, "error_code") and not has_calls:
        return True
    last = parts[-1].model_extra or {}
    ran_code = get_spelled(last, "code_execution_result") is not None
    return not has_calls and not any(part.function_response is not None for part in parts) and not ran_code


def _name_other_part(part: Part) -> str | None:
    """Name a part that an expectation cannot have; None for text, thoughts, calls and responses."""
    extra = part.model_extra or {}
    for name, shown in (("inline_data", "binary data"), ("file_data", "a file")):
        data = get_spelled(extra, name)
        if isinstance(data, Mapping):
            kind = get_spelled(data, "mime_type")
            return f"{shown} ({kind})" if kind else shown
    for name in ("executable_code", "code_execution_result"):
        if get_spelled(extra, name) is not None:
            return name.replace("_", " ")
    return None


def _get_actions(event: Mapping[str, Any]) -> Mapping[str, Any]:
    actions = event.get("actions")
    return actions if isinstance(actions, Mapping) else {}


# Stores in SQLite files: opened read-only, and never changed

_MAGIC = b"SQLite format 3\0"
_VERSIONS = {"0", "1"}
_BUSY_SECONDS = 5.0
_CHANGED = "changed while it was read: import again"
_PLAIN = ("invocation_id", "author", "partial", "error_code", "interrupted", "timestamp")
_AS_JSON = {
    "content": "content",
    "input_transcription": "input_transcription",
    "output_transcription": "output_transcription",
    "long_running_tool_ids_json": "long_running_tool_ids",
}
"""The columns of the older layout that contain JSON, and the fields of an event that they contain."""


def is_sqlite(start: bytes) -> bool:
    """True if these are the first bytes of a SQLite file."""
    return start.startswith(_MAGIC)


class AdkStore:
    """A SQLite file with sessions of ADK."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        """Raises StoreError if the tables are not those of a known layout."""
        self.path = path
        self._connection = connection
        self._columns = {
            table: [str(row[1]) for row in connection.execute(f"pragma table_info({table})")]
            for table in ("sessions", "events", "app_states", "user_states", "adk_internal_metadata")
        }
        version = self._read_version()
        self._has_json = "event_data" in self._columns["events"]
        needed = ("app_name", "user_id", "session_id", "timestamp")
        if not {"id", "app_name", "user_id", "state"}.issubset(self._columns["sessions"]) or not {
            *needed,
            *(("event_data",) if self._has_json else ("author", "content")),
        }.issubset(self._columns["events"]):
            tables = [str(row[0]) for row in connection.execute("select name from sqlite_master where type = 'table'")]
            found = f"a SQLite file with {', '.join(sorted(tables)[:5]) or 'no tables'}"
            raise StoreError(path, found=found, expected="the tables of a session store of ADK: sessions, events")
        if version is not None and version not in _VERSIONS:
            expected = " or ".join(sorted(_VERSIONS))
            raise StoreError(path, found=f"schema version {version!r} of ADK's session store", expected=expected)

    def list_heads(self) -> list[SessionHead]:
        """List the sessions, the newest first."""
        updated = "update_time" if "update_time" in self._columns["sessions"] else "null"
        rows = self._connection.execute(
            f"select id, app_name, user_id, {updated} from sessions order by {updated} desc, id"
        )
        return [SessionHead(id=str(r[0]), app=str(r[1]), user=str(r[2]), updated=parse_time(r[3])) for r in rows]

    def read_session(self, head: SessionHead) -> SourceSession:
        try:
            state = self._read_state(head) if self._has_json else None
            return _read_session(head, self._read_events(head), state=state)
        except SessionFault as fault:
            return SourceSession(id=head.id, app=head.app, user=head.user, began=head.updated, problem=str(fault))

    def _read_version(self) -> str | None:
        if not self._columns["adk_internal_metadata"]:
            return None
        row = self._connection.execute(
            "select value from adk_internal_metadata where key = 'schema_version'"
        ).fetchone()
        return None if row is None else str(row[0])

    def _read_events(self, head: SessionHead) -> Iterator[Mapping[str, Any]]:
        known = ("event_data",) if self._has_json else (*_PLAIN, *_AS_JSON)
        names = [name for name in known if name in self._columns["events"]]
        rows = self._connection.execute(
            f"select {', '.join(names)} from events where app_name = ? and user_id = ? and session_id = ? "
            "order by timestamp, rowid",
            (head.app, head.user, head.id),
        )
        for number, row in enumerate(rows):
            place = f"events[{number}]"
            if self._has_json:
                event = _parse_json(row[0], place=f"{place}.event_data")
                if not isinstance(event, Mapping):
                    raise SessionFault(place=place, found=describe_kind(event), expected="an event")
                yield event
                continue
            columns = dict(zip(names, row, strict=True))
            event = {name: columns[name] for name in _PLAIN if name in columns}
            time = parse_time(columns["timestamp"])
            event["timestamp"] = None if time is None else time.timestamp()
            for name, field_name in _AS_JSON.items():
                if columns.get(name) is not None:
                    event[field_name] = _parse_json(columns[name], place=f"{place}.{name}")
            yield event

    def _read_state(self, head: SessionHead) -> dict[str, Any]:
        """Return the state at the end, with that of the app and the user under the prefixes that ADK gives them."""
        app = ("app_name = ?", (head.app,))
        user = ("app_name = ? and user_id = ?", (head.app, head.user))
        session = ("app_name = ? and user_id = ? and id = ?", (head.app, head.user, head.id))
        state: dict[str, Any] = {}
        for table, prefix, (where, values) in (
            ("app_states", "app:", app),
            ("user_states", "user:", user),
            ("sessions", "", session),
        ):
            if "state" not in self._columns[table]:
                continue
            row = self._connection.execute(f"select state from {table} where {where}", values).fetchone()
            found = None if row is None else _parse_json(row[0], place=f"{table}.state")
            if isinstance(found, Mapping):
                state.update({f"{prefix}{key}": value for key, value in found.items()})
        return state


def _parse_json(value: Any, *, place: str) -> Any:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    try:
        return json.loads(value)
    except (TypeError, ValueError, RecursionError):
        raise SessionFault(place=place, found="damaged JSON", expected="the JSON that ADK writes") from None


@contextmanager
def open_adk_store(path: Path) -> Iterator[AdkStore]:
    """Open a SQLite file with sessions of ADK, without changing it or its log. Raises StoreError.

    SQLite may change the index of a log (`-shm`), by which programs agree on what is being read.
    """
    try:
        with _connect(path) as connection:
            yield AdkStore(path, connection)
    except sqlite3.DatabaseError as error:
        raise StoreError(path, f"cannot read it as a SQLite file: {error}") from error


@contextmanager
def _connect(path: Path) -> Iterator[sqlite3.Connection]:
    """Connect to a file that a program may be writing.

    SQLite creates files beside one in WAL mode even if it only reads, and leaves them. So a file without a log is read
    as immutable, and one whose log has no index, or with the journal of an unfinished transaction, is read as a copy.
    """
    real = real_path(path)
    log, index, journal = (real.with_name(f"{real.name}-{ending}") for ending in ("wal", "shm", "journal"))
    with real.open("rb") as file:
        is_wal = file.read(20)[18:] == b"\x02\x02"
    before = read_signature(real)
    if (log.exists() and not index.exists()) or (journal.exists() and journal.stat().st_size):
        with tempfile.TemporaryDirectory() as folder:
            for each in filter(Path.exists, (real, log, journal)):
                shutil.copy(each, folder)
            if read_signature(real) != before:
                raise StoreError(path, _CHANGED)
            with closing(sqlite3.connect(f"{(Path(folder) / real.name).as_uri()}", uri=True)) as connection:
                yield connection
        return
    is_immutable = is_wal and not log.exists()
    address = f"{real.as_uri()}?{'immutable=1' if is_immutable else 'mode=ro'}"
    with closing(sqlite3.connect(address, uri=True, timeout=_BUSY_SECONDS)) as connection:
        yield connection
    if is_immutable and (log.exists() or read_signature(real) != before):
        raise StoreError(path, _CHANGED)
