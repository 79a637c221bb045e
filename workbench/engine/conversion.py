"""Conversion between datasets, eval sets and lists of messages, with a report of what the other cannot hold."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from workbench.engine.plan import PlanError
from workbench.model.evalset import Content, EvalCase, Invocation
from workbench.model.identity import format_case_name
from workbench.model.text import pluralise
from workbench.model.trace import ToolCall, dump_trajectory, get_trajectory
from workbench.model.turn_diff import list_messages, list_responses
from workbench.store.datasets.dataset_files import (
    encode_rows,
    find_json_losses,
    find_losses,
    is_dataset,
    read_dataset,
    refuse_without_known_columns,
    replace_unwritable,
)
from workbench.store.datasets.dataset_rows import CONTENTS, ID, MESSAGES, REFERENCE_MESSAGES, Columns, Dataset, Row
from workbench.store.datasets.message_rows import (
    MessageConversation,
    MessageTurn,
    ToolResult,
    is_messages,
    read_messages,
    to_langchain_messages,
    to_openai_messages,
)
from workbench.store.errors import StoreError
from workbench.store.evalsets.evalset_document import EvalSetDocument
from workbench.store.files import EVAL_SET_SUFFIXES, derive_set_name

# Losses of a conversion.


class Losses:
    """Kinds of loss, as messages, with the cases that they affect."""

    def __init__(self) -> None:
        self._cases: dict[str, dict[str, None]] = {}
        self.unread = 0  # rows or cases that are left out because they cannot be read

    def add(self, what: str, *, case: str) -> None:
        """Add a loss of a case. `case` is a unique name; each counts once."""
        self._cases.setdefault(what, {})[case] = None

    def add_unread(self, what: str, *, reason: str, case: str) -> None:
        """Add a row or case that cannot be read and is left out."""
        self.unread += 1
        self.add(f"a {what} that cannot be read is left out: {reason}", case=case)

    def lines(self) -> Iterator[str]:
        """Yield one line for each kind of loss: the number of cases, and the first."""
        for what, cases in self._cases.items():
            first = next(iter(cases))
            yield f"{what} ({pluralise(len(cases), 'case')}{'' if len(cases) == 1 else ', the first'}: {first})"


# Sessions, the common form of datasets, eval sets and lists of messages.

Side = Literal["reference", "response"]
"""The expected or the actual side of an agent."""

COLUMNS: Mapping[Side, tuple[str, str, str]] = {
    "reference": ("reference", "reference_trajectory", REFERENCE_MESSAGES),
    "response": ("response", "predicted_trajectory", MESSAGES),
}
"""The columns with the answer, the calls and the messages of each side."""


@dataclass
class ConvertedSession:
    """A session. `columns` are those of its row that do not belong to this side.

    `name` is its unique name in losses, because sessions may share an id.
    """

    eval_id: str
    name: str
    conversation: MessageConversation
    columns: Mapping[str, Any] = field(default_factory=dict)


def choose_side(rows: Sequence[Row]) -> Side:
    """Return the side of a dataset: the reference if any row has one."""
    return "reference" if any(_has(row, "reference") for row in rows) else "response"


def choose_reported_side(rows: Sequence[Row]) -> Side:
    """Return the side of the actual conversation: the response if any row has one."""
    return "response" if any(_has(row, "response") for row in rows) else "reference"


def _has(row: Row, side: Side) -> bool:
    return any(row.columns.get(name) is not None for name in COLUMNS[side])


def read_row_sessions(dataset: Dataset, *, side: Side, losses: Losses) -> Iterator[ConvertedSession]:
    """Yield one side of the readable rows; the others are losses."""
    answer, calls, messages = COLUMNS[side]
    for name, row in filter_readable(dataset, losses):
        conversation = _read_whole_conversation(row, side)
        own = {"prompt", answer, calls, ID, *_find_derived_columns(row, messages if conversation else None)}
        others = {column: value for column, value in row.columns.items() if column not in own and value is not None}
        conversation = conversation or read_conversation(row, side)
        for kind in sorted({kind for turn in conversation.turns for kind in turn.left_out}):
            losses.add(f"parts other than text: {kind}", case=name)
        yield ConvertedSession(row.eval_id, name, conversation, others)


def filter_readable(dataset: Dataset, losses: Losses) -> Iterator[tuple[str, Row]]:
    """Yield the readable rows with their names for losses; add the others to the losses."""
    for name, row in zip(make_names(row.eval_id for row in dataset.rows), dataset.rows, strict=True):
        if row.problems:
            losses.add_unread("row", reason=str(row.problems[0]), case=name)
        else:
            yield name, row


def make_names(eval_ids: Iterable[str]) -> Iterator[str]:
    """Yield a unique name for each of these ids, even if one is `id#2`."""
    seen: Counter[str] = Counter()
    taken: set[str] = set()
    for eval_id in eval_ids:
        while (name := format_case_name(eval_id, seen[eval_id])) in taken:
            seen[eval_id] += 1
        taken.add(name)
        yield name


def read_conversation(row: Row, side: Side) -> MessageConversation:
    """Return one side of a row: its messages, or the single turn of its columns."""
    prompt, answer, calls = _get_turn(row, side)
    return _read_whole_conversation(row, side) or MessageConversation(
        turns=[MessageTurn(prompt=prompt, calls=calls, answer=answer)]
    )


def _get_turn(row: Row, side: Side) -> tuple[str | None, str | None, list[ToolCall] | None]:
    if side == "reference":
        return row.prompt, row.reference, row.reference_trajectory
    return row.prompt, row.response, row.predicted_trajectory


def _read_whole_conversation(row: Row, side: Side) -> MessageConversation | None:
    """Return the messages of one side of a row; None if there are none, or if its columns differ from them."""
    value = row.columns.get(COLUMNS[side][2])
    if not is_messages(value):
        return None
    conversation = read_messages(value)
    is_same = (conversation.prompt, conversation.answer, conversation.calls) == _get_turn(row, side)
    return conversation if is_same else None


def _find_derived_columns(row: Row, used: str | None) -> Iterator[str]:
    """Yield the columns whose loss is none: a column of messages that is `used`, and those that messages supply."""
    for side, (answer, calls, messages) in COLUMNS.items():
        value = row.columns.get(messages)
        if not is_messages(value):
            continue
        conversation = read_messages(value)
        _, said, called = _get_turn(row, side)
        if said == conversation.answer:
            yield answer
        if called == conversation.calls:
            yield calls
        if messages == used:
            yield messages
        if messages == MESSAGES and row.columns.get(CONTENTS) is value:  # two names of one column
            yield CONTENTS if messages == used else messages


def read_set_sessions(path: Path, *, losses: Losses) -> Iterator[ConvertedSession]:
    """Yield the conversations of an eval set; the other cases are losses.

    Raises StoreError, also if the JSON around the cases is broken.
    """
    document = EvalSetDocument.open(path)
    document.refuse_broken_json()
    for name, entry in zip(make_names(entry.eval_id for entry in document.entries), document.entries, strict=True):
        try:
            case = document.case(entry.index)
        except StoreError as error:
            losses.add_unread("case", reason=str(error), case=name)
            continue
        if case.conversation is None:
            losses.add("a conversation scenario is left out: it has no conversation yet", case=name)
            continue
        if not case.conversation:
            losses.add("a case without turns is left out", case=name)
            continue
        for what in _find_case_losses(case):
            losses.add(what, case=name)
        turns = []
        for invocation in case.conversation:
            for what in _find_turn_losses(invocation):
                losses.add(what, case=name)
            turns.append(_convert_turn(invocation))
        yield ConvertedSession(case.eval_id, name, MessageConversation(turns=turns))


def _convert_turn(invocation: Invocation) -> MessageTurn:
    answer = invocation.final_response
    return MessageTurn(
        prompt=_join_texts(invocation.user_content),
        calls=None if invocation.intermediate_data is None else get_trajectory(invocation),
        results=[
            ToolResult(item.name, json.dumps(item.response, ensure_ascii=False)) for item in list_responses(invocation)
        ],
        said=[said.text for said in list_messages(invocation)],
        answer=None if answer is None else _join_texts(answer),
    )


def _join_texts(content: Content) -> str | None:
    texts = [part.text for part in content.parts or () if part.text is not None and not part.thought]
    return "\n".join(texts) if texts else None


def _find_case_losses(case: EvalCase) -> Iterator[str]:
    if case.session_input is not None:
        yield "the initial session (session_input)"
    if case.final_session_state is not None:
        yield "the expected final state (final_session_state)"
    if case.rubrics:
        yield "rubrics"
    for name in case.model_extra or ():
        yield f"the field {name}"


def _find_turn_losses(invocation: Invocation) -> Iterator[str]:
    if invocation.rubrics:
        yield "rubrics"
    if invocation.app_details is not None:
        yield "instructions and tools of the agent (app_details)"
    for name in invocation.model_extra or ():
        yield f"the field {name} of turns"
    for content in (invocation.user_content, invocation.final_response):
        for part in (content and content.parts) or ():
            if part.thought:
                yield "thoughts"
            for kind in part.model_extra or ():
                yield f"parts other than text: {kind}"


# Conversion between datasets, eval sets and lists of messages, with a report of what the other cannot hold.

Form = Literal["rows", "evalset", "openai", "langchain"]
"""The form of a file: rows of a dataset, an eval set, or conversations as lists of messages."""

_WRITE_MESSAGES = {"openai": to_openai_messages, "langchain": to_langchain_messages}


@dataclass(frozen=True, kw_only=True)
class Converted:
    """A converted file; `losses` has a line for each kind of loss.

    `unread` is the number of rows or cases that are left out because they cannot be read; `losses` includes them.
    """

    content: bytes
    number: int
    losses: tuple[str, ...]
    unread: int


def guess_form(path: Path) -> Form:
    return "evalset" if path.name.endswith(EVAL_SET_SUFFIXES) else "rows"


def convert(
    source: Path | str, to: Path, *, form: Form, side: Side | None = None, columns: Columns | None = None
) -> Converted:
    """Convert `source` to the content of the file `to` in a form; nothing is written.

    `side` is the side of rows that an eval set or conversation corresponds to: by default the reference for an eval
    set, and the response for messages. `columns` as in `read_dataset`. Raises PlanError if there is nothing to convert,
    and StoreError if a file cannot be read or written, or has no known column.
    """
    losses = Losses()
    if isinstance(source, Path) and not is_dataset(source):
        if form == "evalset":
            raise PlanError(f"{source} is already an eval set: expected another form, such as --to rows")
        sessions = list(read_set_sessions(source, losses=losses))
        if form == "rows":
            return _as_file(to, list(_build_rows(sessions, side=side or "reference", losses=losses)), losses)
        return _as_file(to, list(_build_messages(sessions, form, losses=losses)), losses)
    dataset = read_dataset(source, columns=columns)
    if form == "rows":
        if side is not None:
            raise PlanError("--side: rows keep both sides; expected it only with an eval set or messages")
        rows = [_own_columns(row.columns, losses, case=name) for name, row in filter_readable(dataset, losses)]
        return _as_file(to, rows, losses)
    if any(row.columns for row in dataset.rows):
        refuse_without_known_columns(dataset)
    if form == "evalset":
        found = read_row_sessions(dataset, side=side or choose_side(dataset.rows), losses=losses)
        return _as_eval_set(to, found, losses, mapped=(columns or {}).values())
    sessions = list(read_row_sessions(dataset, side=side or choose_reported_side(dataset.rows), losses=losses))
    return _as_file(to, list(_build_messages(sessions, form, losses=losses)), losses)


def _as_file(to: Path, rows: list[Mapping[str, Any]], losses: Losses) -> Converted:
    names = list(make_names(str(row.get(ID) or f"row_{number}") for number, row in enumerate(rows, start=1)))
    for what, number in find_losses(to, rows):
        losses.add(what, case=names[number - 1])
    return Converted(
        content=encode_rows(to, rows), number=len(rows), losses=tuple(losses.lines()), unread=losses.unread
    )


def _own_columns(columns: Mapping[str, Any], losses: Losses, *, case: str) -> Mapping[str, Any]:
    """Return the columns of a row without messages, whose contents are in other columns."""
    for _, _, name in COLUMNS.values():
        if is_messages(columns.get(name)):
            losses.add(f"everything in {name} except prompt, calls and answer", case=case)
            columns = {key: value for key, value in columns.items() if key != name}
    return columns


def _build_rows(sessions: Iterable[ConvertedSession], *, side: Side, losses: Losses) -> Iterator[Mapping[str, Any]]:
    """Yield a row for each turn."""
    answer, calls, _ = COLUMNS[side]
    for session in sessions:
        turns = session.conversation.turns
        if len(turns) > 1:
            losses.add("the link between turns: each becomes a separate row", case=session.name)
        for number, turn in enumerate(turns, start=1):
            if turn.results:
                losses.add("tool results", case=session.name)
            if turn.said:
                losses.add("intermediate responses", case=session.name)
            yield {
                ID: session.eval_id if len(turns) == 1 else f"{session.eval_id}_turn_{number}",
                "prompt": turn.prompt,
                answer: turn.answer,
                calls: None if turn.calls is None else dump_trajectory(turn.calls),
            }


def _build_messages(sessions: Iterable[ConvertedSession], form: Form, *, losses: Losses) -> Iterator[Mapping[str, Any]]:
    for session in sessions:
        for turn in session.conversation.turns:
            for what in _find_message_losses(turn):
                losses.add(what, case=session.name)
        if MESSAGES in session.columns:
            losses.add(f"the column {MESSAGES}", case=session.name)
        messages = _WRITE_MESSAGES[form](session.conversation)
        yield {ID: session.eval_id, MESSAGES: messages, **{n: v for n, v in session.columns.items() if n != MESSAGES}}


def _find_message_losses(turn: MessageTurn) -> Iterator[str]:
    speaks = bool(turn.answer is not None or turn.said or turn.calls)
    if turn.calls is None and speaks:
        yield "unknown tool calls: in messages, they become no calls"
    if turn.calls == [] and not speaks:
        yield "the fact that no tool was called: messages without an answer cannot state it"
    if any(call.args is None for call in turn.calls or ()):
        yield "missing arguments of calls: in messages, they become empty"
    if turn.calls and turn.said:
        yield "the order of intermediate responses and tool calls"


def _as_eval_set(
    to: Path, sessions: Iterable[ConvertedSession], losses: Losses, *, mapped: Collection[str] = ()
) -> Converted:
    """Build an eval set. `mapped` are columns that known columns have copied."""
    if to.suffix != ".json":
        raise StoreError(
            to, f"is not the name of an eval set: expected one that ends in {' or '.join(EVAL_SET_SUFFIXES)}"
        )
    taken: Counter[str] = Counter()
    cases = []
    for session in sessions:
        for name in session.columns:
            if name not in mapped:
                losses.add(f"the column {name}", case=session.name)
        if session.conversation.system is not None:
            losses.add("the instructions (system messages)", case=session.name)
        if any(turn.prompt is None for turn in session.conversation.turns):
            losses.add("a prompt, because the row has none", case=session.name)
        eval_id = _free_id(session.eval_id, taken)
        if eval_id != session.eval_id:
            losses.add("a duplicate id: it gets a number", case=session.name)
        case = _build_case(replace(session, eval_id=eval_id))
        for what in find_json_losses(case):
            losses.add(what, case=session.name)
        cases.append(case)
    name = derive_set_name(to)
    whole = replace_unwritable({"eval_set_id": name, "name": name, "eval_cases": cases})
    text = json.dumps(whole, ensure_ascii=False, indent=2)
    content = (text + "\n").encode()
    return Converted(content=content, number=len(cases), losses=tuple(losses.lines()), unread=losses.unread)


def _free_id(eval_id: str, taken: Counter[str]) -> str:
    """Return a unique id for a case: duplicates are numbered."""
    free = eval_id
    while taken[free]:
        taken[eval_id] += 1
        free = f"{eval_id}_{taken[eval_id]}"
    taken[free] += 1
    return free


def _build_case(session: ConvertedSession) -> Mapping[str, Any]:
    return {
        "eval_id": session.eval_id,
        "conversation": [
            {"invocation_id": f"{session.eval_id}_{number}", **build_invocation(turn)}
            for number, turn in enumerate(session.conversation.turns, start=1)
        ],
    }


def build_invocation(turn: MessageTurn) -> Mapping[str, Any]:
    """Build a turn of an eval set; unknown fields are absent."""
    parts = [] if turn.prompt is None else [{"text": turn.prompt}]
    data: dict[str, Any] = {"user_content": {"role": "user", "parts": parts}}
    if turn.answer is not None:
        data["final_response"] = {"role": "model", "parts": [{"text": turn.answer}]}
    if turn.calls is not None:
        uses = [{"name": call.name} | ({} if call.args is None else {"args": call.args}) for call in turn.calls]
        data["intermediate_data"] = {
            "tool_uses": uses,
            "tool_responses": [_tool_response(result) for result in turn.results],
            "intermediate_responses": [["agent", [{"text": text}]] for text in turn.said],
        }
    return data


def _tool_response(result: ToolResult) -> Mapping[str, Any]:
    """Build a tool response. Eval sets need an object, so any other value becomes its `result`."""
    try:
        response = json.loads(result.content)
    except (ValueError, RecursionError):
        response = result.content
    named = {} if result.name is None else {"name": result.name}
    return {**named, "response": response if isinstance(response, dict) else {"result": response}}
