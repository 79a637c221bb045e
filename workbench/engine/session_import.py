"""Sessions from production as eval cases: find them in files of other programs, filter, redact and keep them.

The readers are `workbench/store/datasets/adk_sessions.py`, `workbench/engine/trace_sessions.py`, and for lists of
messages that of datasets. Sources are never changed.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any

from workbench.engine.chat_session import NewCase, append_cases
from workbench.engine.conversion import Losses, choose_reported_side, make_names, read_row_sessions
from workbench.engine.plan import PlanError
from workbench.engine.trace_sessions import (
    TraceStep,
    build_sessions,
    is_langfuse,
    is_langsmith,
    is_otlp,
    make_session,
    read_langfuse_steps,
    read_langsmith_steps,
    read_otlp_steps,
)
from workbench.model.evalset import EvalCase, Invocation, SessionInput
from workbench.model.results import TurnResult
from workbench.model.text import REDACTED, mask_named_secrets, redact, suggest_name
from workbench.model.trace import CallEvent, ResponseEvent, TextEvent, get_trajectory, iterate_events
from workbench.store.datasets.adk_sessions import (
    SessionHead,
    SourceSession,
    is_adk_session,
    is_sqlite,
    open_adk_store,
    parse_time,
    read_adk_session,
)
from workbench.store.datasets.dataset_files import (
    ENDINGS,
    dataset_from_records,
    dataset_from_rows,
    read_records,
    replace_unwritable,
)
from workbench.store.datasets.dataset_rows import ID, MESSAGES, Dataset
from workbench.store.datasets.message_rows import describe_kind, is_messages
from workbench.store.errors import StoreError, os_errors
from workbench.store.evalsets.config_files import parse_json
from workbench.store.evalsets.evalset_document import EvalSetDocument
from workbench.store.evalsets.quarantine import digest_messages
from workbench.store.files import decode_utf8, find_special_kind, make_stamp, read_bytes, real_path

# Which sessions


_SINCE = re.compile(r"(\d{1,6})\s*([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True, kw_only=True)
class SessionFilter:
    """Which sessions to take; an empty or missing value takes all. Texts are compared without case."""

    ids: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    since: datetime | None = None
    contains: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    limit: int | None = None

    def may_match(self, head: SessionHead) -> bool:
        """False if a session cannot match, whatever its events are."""
        is_old = self.since is not None and head.updated is not None and head.updated < self.since
        return (not self.ids or head.id in self.ids) and (not self.users or head.user in self.users) and not is_old

    def matches(self, session: SourceSession) -> bool:
        """True if a session matches. One without a known time is not excluded by time."""
        head = SessionHead(id=session.id, app=session.app, user=session.user, updated=session.began)
        if not self.may_match(head) or (self.tools and set(self.tools).isdisjoint(list_tools(session))):
            return False
        if not self.contains:
            return True
        texts = "\n".join(_list_texts(session)).casefold()
        return all(text.casefold() in texts for text in self.contains)


def parse_since(text: str, *, now: datetime) -> datetime:
    """Parse a date, a time, or a duration before now such as `7d`, `12h` or `30m`. Raises ValueError."""
    duration = _SINCE.fullmatch(text.strip())
    found = parse_time(text.strip()) if duration is None else None
    try:
        if duration is not None:
            found = now - timedelta(**{_UNITS[duration[2]]: int(duration[1])})
    except OverflowError:
        found = None
    if found is None:
        raise ValueError(f"found {text!r}, expected a date (2026-11-01), a time (2026-11-01T09:30) or 30m, 12h, 7d, 2w")
    return found


def list_tools(session: SourceSession) -> list[str]:
    """Return the names of the tools that a session called, in the order of their first call."""
    return [*dict.fromkeys(call.name for turn in session.turns for call in get_trajectory(turn))]


def get_first_message(session: SourceSession) -> str:
    """Return the first message of the user; empty if it is no text."""
    return session.turns[0].user_content.text() if session.turns else ""


def _list_texts(session: SourceSession) -> Iterator[str]:
    for turn in session.turns:
        yield turn.user_content.text()
        yield turn.response_text() or ""


# Sources: the kind of a file is recognised by its content

_LINES = (".jsonl", ".ndjson")
_TABLES = (".csv", ".parquet")
_EXPECTED = (
    "a session store or session of ADK, a trace in OTLP/JSON, an export of Langfuse or LangSmith, or lists of messages"
)
_CASES = frozenset({"eval_cases", "evalCases"})
_ENVELOPES = ("data", "runs", "sessions")


@dataclass
class SourceFile:
    """A file with sessions. `kind` says in words what it is, `notes` what of it could not be read.

    `steps` are those of traces, which may continue in other files.
    """

    path: Path
    kind: str
    read: Callable[[SessionFilter], Iterator[SourceSession]]
    notes: list[str] = field(default_factory=list)
    steps: Sequence[TraceStep] = ()

    def find_sessions(self, wanted: SessionFilter) -> Iterator[SourceSession]:
        """Yield the sessions that match, the newest first if times are known. Raises StoreError."""
        found = 0
        for session in self.read(wanted):
            if wanted.limit is not None and found >= wanted.limit:
                return
            if wanted.matches(session):
                found += 1
                yield session


def open_sources(paths: Iterable[Path]) -> list[SourceFile]:
    """Recognise what files are. Traces may have parts in several of them: the first has the sessions of all.

    Raises StoreError.
    """
    sources = [open_source(path) for path in paths]
    traced = [source for source in sources if source.steps]
    steps = [step for source in traced for step in source.steps]
    for number, source in enumerate(traced):
        source.read = _make_reader(partial(build_sessions, steps if number == 0 else ()))
    return sources


def open_source(path: Path) -> SourceFile:
    """Recognise what a file is. Raises StoreError if it contains no sessions that can be read."""
    if path.is_dir():
        raise StoreError(path, found="a folder", expected=f"a file: {_EXPECTED}")
    is_special = find_special_kind(path) is not None
    data = read_bytes(path)[0] if is_special else _read_start(path)
    if is_special and is_sqlite(data):
        raise StoreError(path, found="a session store in a pipe", expected="the file itself")
    if is_sqlite(data):
        with open_adk_store(path):
            return SourceFile(path, "session store of ADK", lambda wanted: _read_store(path, wanted))
    suffix = path.suffix.lower()
    if suffix in _TABLES:
        records = [*read_records(path)]
        rows = [record.columns for record in records]
        if any(is_langsmith(row) or is_langfuse(row) for row in rows):
            return _recognise(path, [rows])
        return _open_messages(path, dataset_from_records(path, records))
    data, _ = read_bytes(path)
    if not data.strip():
        raise StoreError(path, found="an empty file", expected=_EXPECTED)
    notes: list[str] = []
    has_lines = suffix in _LINES or _has_lines(data)
    documents = _parse_lines(path, data, notes) if has_lines else [_parse_document(path, data)]
    source = _recognise(path, documents)
    source.notes += notes
    return source


def _read_start(path: Path) -> bytes:
    with os_errors("read", path), path.open("rb") as file:
        return file.read(16)


def _read_store(path: Path, wanted: SessionFilter) -> Iterator[SourceSession]:
    with open_adk_store(path) as store:
        for head in store.list_heads():
            if wanted.may_match(head):
                yield store.read_session(head)


def _has_lines(data: bytes) -> bool:
    """True if the first line is a whole JSON value, and more follow."""
    first, _, rest = data.removeprefix(b"\xef\xbb\xbf").lstrip().partition(b"\n")
    if not rest.lstrip().startswith((b"[", b"{")):
        return False
    try:
        json.loads(first)
    except (ValueError, RecursionError):
        return False
    return True


def _parse_document(path: Path, data: bytes) -> Any:
    if data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"[", b"{", b"/"):
        raise StoreError(path, found="a file that is neither JSON nor SQLite", expected=_EXPECTED)
    try:  # accepts half surrogate pairs: one text cannot refuse all sessions
        return json.loads(decode_utf8(path, data).removeprefix("\ufeff"))
    except (ValueError, RecursionError):  # it knows comments, and says where the fault is
        return parse_json(path, data, make_stamp(data)).data


def _parse_lines(path: Path, data: bytes, notes: list[str]) -> list[Any]:
    """Parse JSON lines. A last line that a program has not finished is left out, with a note."""
    documents: list[Any] = []
    lines = decode_utf8(path, data).removeprefix("\ufeff").split("\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            documents.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            if number == len(lines) and documents:  # no line feed follows
                notes.append(f"line {number} is left out: it is not complete")
                continue
            column = error.colno if isinstance(error, json.JSONDecodeError) else 1
            raise StoreError(
                path, line=number, column=column, found="damaged JSON", expected="one JSON value a line"
            ) from None
    return documents


def _recognise(path: Path, documents: Sequence[Any]) -> SourceFile:
    items = _list_items(documents)
    first = items[0] if items else None
    if not items:
        raise StoreError(path, found="no sessions", expected=_EXPECTED)
    if is_adk_session(first):
        return SourceFile(path, "sessions of ADK", _make_reader(lambda: _read_exported(path, items)))
    if is_otlp(first):
        steps, problems = read_otlp_steps(items)
        if problems and not steps:
            raise StoreError(path, problems[0])
        return _make_traces(path, "OpenTelemetry traces", steps, notes=problems)
    if any(map(is_langsmith, items)):
        return _make_traces(path, "runs of LangSmith", read_langsmith_steps(items))
    if any(map(is_langfuse, items)):
        return _make_traces(path, "traces of Langfuse", read_langfuse_steps(items))
    if is_messages(items):
        return _open_messages(path, dataset_from_rows([{ID: path.stem, MESSAGES: items}], name=str(path)))
    if isinstance(first, Mapping) and not _CASES.isdisjoint(first):
        raise StoreError(path, found="an eval set", expected=f"{_EXPECTED}; its cases need no import")
    has_messages = isinstance(first, list) or (isinstance(first, Mapping) and MESSAGES in first)
    if has_messages:
        return _open_messages(path, _make_rows(path, items))
    found = describe_kind(first)
    if isinstance(first, Mapping):
        found = f"an object with {', '.join(map(str, [*first][:5])) or 'no keys'}"
    raise StoreError(path, found=found, expected=_EXPECTED)


def _make_rows(path: Path, items: Sequence[Any]) -> Dataset:
    rows = [{MESSAGES: item} if isinstance(item, list) else item for item in items]
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, Mapping):
            raise StoreError(path, place=f"[{number - 1}]", found=describe_kind(row), expected="a list of messages")
    return dataset_from_rows(rows, name=str(path))


def _list_items(documents: Sequence[Any]) -> list[Any]:
    """Return the items of lists and of envelopes of APIs."""
    items: list[Any] = []
    for document in documents:
        envelope = next(
            (
                document[key]
                for key in _ENVELOPES
                if isinstance(document, Mapping) and isinstance(document.get(key), list) and "id" not in document
            ),
            document,
        )
        if isinstance(envelope, list) and (len(documents) == 1 or not is_messages(envelope)):
            items += envelope
        else:
            items.append(envelope)
    return items


_OLDEST = datetime.min.replace(tzinfo=UTC)


def _make_traces(path: Path, kind: str, steps: Sequence[TraceStep], notes: Sequence[str] = ()) -> SourceFile:
    return SourceFile(path, kind, _make_reader(partial(build_sessions, steps)), notes=[*notes], steps=steps)


def _make_reader(read: Callable[[], Iterable[SourceSession]]) -> Callable[[SessionFilter], Iterator[SourceSession]]:
    """Return what yields sessions that are in memory: the newest first, those without a time last."""
    return lambda _: iter(sorted(read(), key=_get_time, reverse=True))


def _get_time(session: SourceSession) -> datetime:
    return session.began or _OLDEST


def _read_exported(path: Path, items: Sequence[Any]) -> Iterator[SourceSession]:
    for number, item in enumerate(items):
        if is_adk_session(item):
            yield read_adk_session(item)
        else:
            name = f"{path.stem}_{number + 1}"
            yield SourceSession(id=name, problem=f"found {describe_kind(item)}, expected a session of ADK")


def _open_messages(path: Path, dataset: Dataset) -> SourceFile:
    """Open lists of messages: rows of a dataset, each of which is a conversation."""
    if not any(is_messages(row.columns.get(MESSAGES)) for row in dataset.rows):
        names = sorted({name for row in dataset.rows for name in row.columns})
        found = f"rows with {', '.join(names[:5]) or 'no columns'}"
        raise StoreError(path, found=found, expected=f"a column {MESSAGES} with lists of messages ({ENDINGS})")

    def read() -> Iterator[SourceSession]:
        losses = Losses()
        for row in read_row_sessions(dataset, side=choose_reported_side(dataset.rows), losses=losses):
            name = re.sub(r"^row_(?=\d+$)", f"{path.stem}_", row.eval_id)
            user, at = (row.columns.get(key) for key in ("user_id", "timestamp"))
            head = SourceSession(
                id=name,
                user=user if isinstance(user, str) else "",
                began=parse_time(at),
                has_own_id=name == row.eval_id,
            )
            yield make_session(head, row.conversation)
        for name, broken in zip(make_names(row.eval_id for row in dataset.rows), dataset.rows, strict=True):
            if broken.problems:
                yield SourceSession(id=name, problem=str(broken.problems[0]))

    return SourceFile(path, "lists of messages", _make_reader(read))


def find_sessions(
    sources: Sequence[SourceFile], wanted: SessionFilter, redactor: Redactor | None = None
) -> Iterator[SourceSession]:
    """Yield the sessions of all sources that match, the newest first; `limit` counts them together.

    `redactor` is for messages: ids that it changes are not suggested. Raises StoreError, and PlanError if a session
    that was named does not exist.
    """
    found = 0
    missing = set(wanted.ids)
    newest_first = heapq.merge(*(source.find_sessions(wanted) for source in sources), key=_get_time, reverse=True)
    for session in islice(newest_first, wanted.limit):
        found += 1
        missing.discard(session.id)
        yield session
    if missing and (wanted.limit is None or found < wanted.limit):
        others = SessionFilter(users=wanted.users, since=wanted.since)
        known = [session.id for source in sources for session in source.find_sessions(others)]
        name = min(missing)
        clean = (redactor or Redactor()).redact_text
        shown = [each for each in known if clean(each) == each]
        reason = (
            "it does not match the other filters" if name in known else f"no such session{suggest_name(name, shown)}"
        )
        raise PlanError(f"--session {name}: {reason}")


# Redaction

_BINARY = ("inline_data", "inlineData")
_SECRET = "secret"
_PLACES = {"user_content": "message", "final_response": "response", "intermediate_data": "calls and texts"}


@dataclass(frozen=True, slots=True)
class Redaction:
    """What was replaced by `[redacted]` at a place: `what` is a pattern, or `secret` for what looks like one."""

    place: str
    what: str
    times: int


class Redactor:
    """Replaces texts that match patterns, and what looks like a key or password, by `[redacted]`."""

    def __init__(self, patterns: Sequence[re.Pattern[str]] = ()) -> None:
        self._patterns = patterns

    def redact_session(self, session: SourceSession) -> tuple[SourceSession, list[Redaction]]:
        """Return a session without secrets, and what was replaced in it."""
        found: Counter[tuple[str, str]] = Counter()

        def clean(value: Any, place: str, name: object = "") -> Any:
            return self._clean(value, name, place, found, binary)

        binary: set[int] = set()
        turns = []
        for number, turn in enumerate(session.turns, start=1):
            data = turn.model_dump(mode="json", exclude_none=True)
            binary = {id(each) for each in _list_binary(data)}
            for key, shown in _PLACES.items():
                if key in data:
                    data[key] = clean(data[key], f"turn {number}, {shown}")
            turns.append(Invocation.model_validate(replace_unwritable(data)))
        redacted = replace(
            session,
            id=clean(session.id, "id"),
            app=clean(session.app, "app"),
            user=clean(session.user, "user"),
            turns=tuple(turns),
            state=replace_unwritable(clean(dict(session.state), "state")),
            notes=tuple(clean(note, "notes") for note in session.notes),
            problem=clean(session.problem, "notes"),
        )
        return redacted, [Redaction(place, what, times) for (place, what), times in found.items() if place != "notes"]

    def redact_text(self, text: str) -> str:
        """Return a text without secrets and matches of the patterns."""
        return str(self._clean(text, "", "", Counter()))

    def _clean(
        self,
        value: Any,
        name: object,
        place: str,
        found: Counter[tuple[str, str]],
        binary: Collection[int] = (),
    ) -> Any:
        """Return a value without secrets. `binary` are the ids of objects whose data is not text."""
        if isinstance(value, Mapping):
            return {
                self._clean(key, "", place, found): item
                if key == "data" and id(value) in binary  # base64 contains anything by chance
                else self._clean(item, key, place, found, binary)
                for key, item in value.items()
            }
        if isinstance(value, list):
            return [self._clean(item, name, place, found, binary) for item in value]
        if value is None or isinstance(value, bool):
            return value
        given = value if isinstance(value, str) else json.dumps(value)
        text = given
        for pattern in self._patterns:
            text, times = pattern.subn(REDACTED, text)
            if times:
                found[place, pattern.pattern] += times
        masked = mask_named_secrets(redact(text), name)
        if masked != text:
            found[place, _SECRET] += max(1, masked.count(REDACTED) - text.count(REDACTED))
        return value if masked == given else masked


def _list_binary(turn: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the objects of a turn that contain binary data: parts of what was said, not values in calls."""
    calls = turn.get("intermediate_data") or {}
    events = [event.get("content") or {} for event in calls.get("invocation_events") or ()]
    for content in (turn["user_content"], turn.get("final_response") or {}, *events):
        for part in content.get("parts") or ():
            yield from (part[key] for key in _BINARY if isinstance(part.get(key), Mapping))


def compile_pattern(text: str) -> re.Pattern[str]:
    """Compile a pattern for redaction. Raises ValueError for one that is invalid, or matches everything."""
    try:
        pattern = re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"found {text!r}, expected a regular expression: {error}") from None
    if pattern.match("") is not None:
        raise ValueError(f"found {text!r}, which matches empty text, expected a pattern that matches some")
    return pattern


# Keeping: sessions become cases of a set

_Owner = tuple[str, str]
"""The app and the user of a session."""

_Identity = tuple[str, str, str]
"""The app, the user and the id of a session before redaction."""

_USER = "test_user_id"  # as in generated cases
_DIGEST = 10  # hexadecimal digits
_UNFIT = re.compile(r"[\s:/\\\x00-\x1f\x7f]+")


@dataclass(frozen=True, kw_only=True)
class ImportedSession:
    """A session after redaction, and what became of it.

    `eval_id` is that of its case: a new one if `is_added`, else an existing one; None if it cannot be a case.
    """

    session: SourceSession
    eval_id: str | None
    is_added: bool
    redactions: tuple[Redaction, ...] = ()


def keep_sessions(
    document: EvalSetDocument, sessions: Iterable[SourceSession], redactor: Redactor
) -> list[ImportedSession]:
    """Append each session to a set as a case, unless the set has it. The set is not saved.

    The set has a session if it has its id with its app and user, as they were before redaction. If the id comes from
    the position in a file, the user must also say the same. The expected side is what happened, in the form of the
    set's other cases. Raises StoreError.
    """
    indexes = {entry.eval_id: entry.index for entry in document.entries}
    folder = real_path(document.path).parent.name
    taken: dict[str, tuple[_Identity, str | None]] = {}
    new: list[NewCase] = []
    kept: list[ImportedSession] = []

    def is_free(eval_id: str, key: tuple[_Identity, str | None], owner: _Owner, digest: str | None) -> bool:
        """True if no other session has this id."""
        if eval_id in taken:
            return taken[eval_id] == key
        return eval_id not in indexes or _is_of(document, indexes[eval_id], owner, digest)

    for original in sessions:
        session, redactions = redactor.redact_session(original)
        if session.problem is not None or not session.turns:
            kept.append(ImportedSession(session=session, eval_id=None, is_added=False))
            continue
        owner = (session.app or folder, session.user or _USER)
        identity = (original.app or folder, original.user or _USER, original.id)
        name = _name_case(session.id, identity, is_whole=(*owner, session.id) == identity)
        names = (name if number == 1 else f"{name}_{number}" for number in count(1))
        key, digest = (identity, _digest_session(original)), _digest_session(session)
        eval_id = next(each for each in names if is_free(each, key, owner, digest))
        is_added = eval_id not in indexes and eval_id not in taken
        taken[eval_id] = key
        if is_added:
            new.append(_make_case(session, eval_id, owner))
        kept.append(ImportedSession(session=session, eval_id=eval_id, is_added=is_added, redactions=tuple(redactions)))
    if new:
        append_cases(document, new)
    return kept


def _name_case(session_id: str, identity: _Identity, *, is_whole: bool) -> str:
    """Return the id of a case: that of its session, with a digest if redaction or unfit characters changed it.

    Different sessions may look the same after that. `is_whole` is False if redaction changed the identity.
    """
    name = _UNFIT.sub("_", session_id.replace(REDACTED, "redacted")).strip("_") or "session"
    if is_whole and name == session_id:
        return name
    digest = hashlib.sha256(json.dumps(identity).encode()).hexdigest()
    return f"{name}_{digest[:_DIGEST]}"


def _digest_session(session: SourceSession) -> str | None:
    """Return a digest of what the user says in a session without an id of its own; None for others."""
    if session.has_own_id:
        return None
    return digest_messages(EvalCase(eval_id=session.id, conversation=list(session.turns)))


def _is_of(document: EvalSetDocument, index: int, owner: _Owner, digest: str | None) -> bool:
    """True if a case is of this app and user, and has this digest of what the user says, if there is one."""
    if document.entries[index].problem is not None:
        return False
    case = document.case(index)
    given = case.session_input
    is_same = given is not None and (given.app_name, given.user_id) == owner
    return is_same and (digest is None or digest_messages(case) == digest)


def _make_case(session: SourceSession, eval_id: str, owner: _Owner) -> NewCase:
    app, user = owner
    return NewCase(
        eval_id=eval_id,
        turns=[TurnResult(invocation=turn, duration_seconds=0.0) for turn in session.turns],
        session_input=SessionInput(app_name=app, user_id=user, state=dict(session.state)),
    )


# Sessions as text and as JSON

SCHEMA_VERSION = 1


def preview_lines(session: SourceSession) -> Iterator[tuple[str, str]]:
    """Yield each step of a session as a heading and its text, in the order of the case that it would become."""
    for number, turn in enumerate(session.turns, start=1):
        yield f"turn {number}", ""
        yield "user", turn.user_content.text()
        for part in turn.user_content.parts or ():
            for key in (name for name in (part.model_extra or {}) if part.text is None):
                yield "part", key
        for event in iterate_events(turn):
            if isinstance(event, CallEvent):
                yield "call", f"{event.call.name} {json.dumps(event.call.args or {}, ensure_ascii=False)}"
            elif isinstance(event, ResponseEvent):
                yield "result", json.dumps(event.response.response or {}, ensure_ascii=False)
            elif isinstance(event, TextEvent):
                yield "said", f"{event.author}: {event.text}"
        if turn.final_response is not None:
            yield "response", turn.final_response.text(thoughts=False)
    if session.state:
        yield "state", json.dumps(session.state, ensure_ascii=False)
    for note in session.notes:
        yield "note", note
    if session.problem is not None:
        yield "problem", session.problem


def describe_redactions(redactions: Iterable[Redaction]) -> str:
    """Describe what was replaced, such as `secret (turn 1, message), /[0-9]{4}/ 2 times (state)`; empty if nothing."""
    shown = []
    for each in redactions:
        what = each.what if each.what == _SECRET else f"/{each.what}/"
        shown.append(f"{what}{'' if each.times == 1 else f' {each.times} times'} ({each.place})")
    return ", ".join(shown)


def session_record(session: SourceSession) -> dict[str, Any]:
    """Return a redacted session as JSON, without its turns."""
    return {
        "id": session.id,
        "app": session.app,
        "user": session.user,
        "began": None if session.began is None else session.began.isoformat(),
        "turns": len(session.turns),
        "tools": list_tools(session),
        "first_message": get_first_message(session),
        "notes": list(session.notes),
        "problem": session.problem,
    }


def case_record(session: SourceSession) -> dict[str, Any]:
    """Return what a redacted session expects, turn by turn, and its state at the start."""
    return {
        "state": dict(session.state),
        "conversation": [turn.model_dump(mode="json", exclude_none=True) for turn in session.turns],
    }


def redaction_records(redactions: Iterable[Redaction]) -> list[dict[str, Any]]:
    """Return what was replaced as JSON; `pattern` is null for what looks like a secret."""
    return [
        {"place": each.place, "pattern": None if each.what == _SECRET else each.what, "times": each.times}
        for each in redactions
    ]
