"""Conversion between datasets, eval sets and lists of messages, with a report of what the other cannot hold."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from workbench.engine.converting.losses import Losses
from workbench.engine.converting.sessions import (
    COLUMNS,
    Session,
    Side,
    names_of,
    sessions_of_rows,
    sessions_of_set,
    side_in,
    sound_rows,
    told_side_in,
)
from workbench.engine.plan import PlanError
from workbench.model.trajectory import written
from workbench.store.datasets import holds_rows, read_dataset
from workbench.store.datasets.columns import Columns
from workbench.store.datasets.message_lists import langchain_messages, openai_messages
from workbench.store.datasets.messages import ToolResult, Turn, is_messages
from workbench.store.datasets.rows import ID, MESSAGES
from workbench.store.datasets.writing import as_json, content_of, losses_of, lost_in_json
from workbench.store.errors import StoreError
from workbench.store.names import EVAL_SET_SUFFIXES, name_of_file

Form = Literal["rows", "evalset", "openai", "langchain"]
"""What a file holds: rows of a dataset, an eval set, or conversations as lists of messages."""

_WRITE_MESSAGES = {"openai": openai_messages, "langchain": langchain_messages}


@dataclass(frozen=True, kw_only=True)
class Converted:
    """The file that a conversion gives; `losses` has a line for each kind of thing that it cannot hold.

    `unread` is how many rows or cases are left out because they cannot be read; `losses` names them too.
    """

    content: bytes
    number: int
    losses: tuple[str, ...]
    unread: int


def form_of(path: Path) -> Form:
    """What a file of this name holds, where nobody says otherwise."""
    return "evalset" if path.name.endswith(EVAL_SET_SUFFIXES) else "rows"


def convert(
    source: Path | str, to: Path, *, form: Form, side: Side | None = None, columns: Columns | None = None
) -> Converted:
    """The file `to` with what `source` holds, as `form`; nothing is written.

    `side` says which side of the rows an eval set or a conversation is, or becomes: by default the reference of rows
    for an eval set, and what was answered for messages. `columns` as in `read_dataset`. Raises PlanError where there is
    nothing to convert, and StoreError where a file cannot be read or written.
    """
    losses = Losses()
    if isinstance(source, Path) and not holds_rows(source):
        if form == "evalset":
            raise PlanError(f"{source} is an eval set already: expected another form, such as --to rows")
        sessions = list(sessions_of_set(source, losses=losses))
        if form == "rows":
            return _as_file(to, list(_rows_of(sessions, side=side or "reference", losses=losses)), losses)
        return _as_file(to, list(_messages_of(sessions, form, losses=losses)), losses)
    dataset = read_dataset(source, columns=columns)
    if form == "rows":
        if side is not None:
            raise PlanError("--side: rows keep both sides; expected it only with an eval set or messages")
        rows = [_own_columns(row.columns, losses, case=name) for name, row in sound_rows(dataset, losses)]
        return _as_file(to, rows, losses)
    if form == "evalset":
        chosen = side or side_in(dataset.rows)
        return _as_eval_set(to, sessions_of_rows(dataset, side=chosen, losses=losses), losses)
    sessions = list(sessions_of_rows(dataset, side=side or told_side_in(dataset.rows), losses=losses))
    return _as_file(to, list(_messages_of(sessions, form, losses=losses)), losses)


def _as_file(to: Path, rows: list[Mapping[str, Any]], losses: Losses) -> Converted:
    names = list(names_of(str(row.get(ID) or f"row_{number}") for number, row in enumerate(rows, start=1)))
    for what, number in losses_of(to, rows):
        losses.add(what, case=names[number - 1])
    return Converted(content=content_of(to, rows), number=len(rows), losses=tuple(losses.lines()), unread=losses.unread)


def _own_columns(columns: Mapping[str, Any], losses: Losses, *, case: str) -> Mapping[str, Any]:
    """The columns of a row; messages are the columns that they say."""
    for _, _, name in COLUMNS.values():
        if is_messages(columns.get(name)):
            losses.add(f"all of {name} but prompt, calls and answer", case=case)
            columns = {key: value for key, value in columns.items() if key != name}
    return columns


def _rows_of(sessions: Iterable[Session], *, side: Side, losses: Losses) -> Iterator[Mapping[str, Any]]:
    """A row for each turn."""
    answer, calls, _ = COLUMNS[side]
    for session in sessions:
        turns = session.conversation.turns
        if len(turns) > 1:
            losses.add("that turns belong together: each becomes a row of its own", case=session.name)
        for number, turn in enumerate(turns, start=1):
            if turn.results:
                losses.add("what tools gave back", case=session.name)
            if turn.said:
                losses.add("what was said on the way", case=session.name)
            yield {
                ID: session.eval_id if len(turns) == 1 else f"{session.eval_id}_turn_{number}",
                "prompt": turn.prompt,
                answer: turn.answer,
                calls: None if turn.calls is None else written(turn.calls),
            }


def _messages_of(sessions: Iterable[Session], form: Form, *, losses: Losses) -> Iterator[Mapping[str, Any]]:
    for session in sessions:
        for turn in session.conversation.turns:
            for what in _lost_of_messages(turn):
                losses.add(what, case=session.name)
        messages = _WRITE_MESSAGES[form](session.conversation)
        yield {ID: session.eval_id, MESSAGES: messages, **{n: v for n, v in session.columns.items() if n != MESSAGES}}


def _lost_of_messages(turn: Turn) -> Iterator[str]:
    speaks = bool(turn.answer is not None or turn.said or turn.calls)
    if turn.calls is None and speaks:
        yield "that it is not known which tools were called: in messages none were"
    if turn.calls == [] and not speaks:
        yield "that no tool was called: messages without an answer do not say so"
    if any(call.args is None for call in turn.calls or ()):
        yield "that a call was written without arguments: in messages they are empty"
    if turn.calls and turn.said:
        yield "the order of what was said and called on the way"


def _as_eval_set(to: Path, sessions: Iterable[Session], losses: Losses) -> Converted:
    if to.suffix != ".json":
        raise StoreError(to, f"is no name of an eval set: expected one that ends in {' or '.join(EVAL_SET_SUFFIXES)}")
    taken: Counter[str] = Counter()
    cases = []
    for session in sessions:
        for name in session.columns:
            losses.add(f"the column {name}", case=session.name)
        if session.conversation.system is not None:
            losses.add("the instructions (system messages)", case=session.name)
        eval_id = _free_id(session.eval_id, taken)
        if eval_id != session.eval_id:
            losses.add("an id that another case has: it is numbered", case=session.name)
        case = _case_of(replace(session, eval_id=eval_id))
        for what in lost_in_json(case):
            losses.add(what, case=session.name)
        cases.append(case)
    name = name_of_file(to)
    whole = as_json({"eval_set_id": name, "name": name, "eval_cases": cases})
    text = json.dumps(whole, ensure_ascii=False, indent=2)
    content = (text + "\n").encode()
    return Converted(content=content, number=len(cases), losses=tuple(losses.lines()), unread=losses.unread)


def _free_id(eval_id: str, taken: Counter[str]) -> str:
    """An id of its own for a case: ids that others have too are numbered."""
    free = eval_id
    while taken[free]:
        taken[eval_id] += 1
        free = f"{eval_id}_{taken[eval_id]}"
    taken[free] += 1
    return free


def _case_of(session: Session) -> Mapping[str, Any]:
    return {
        "eval_id": session.eval_id,
        "conversation": [
            {"invocation_id": f"{session.eval_id}_{number}", **_invocation_of(turn)}
            for number, turn in enumerate(session.conversation.turns, start=1)
        ],
    }


def _invocation_of(turn: Turn) -> Mapping[str, Any]:
    """The turn as an eval set has it; what is not known is absent."""
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
    """What a tool gave back: an eval set has an object there, so that anything else becomes its `result`."""
    try:
        response = json.loads(result.content)
    except (ValueError, RecursionError):
        response = result.content
    named = {} if result.name is None else {"name": result.name}
    return {**named, "response": response if isinstance(response, dict) else {"result": response}}
