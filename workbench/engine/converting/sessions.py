"""Sessions: what datasets, eval sets and lists of messages have in common, and what each of them has besides."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from workbench.engine.converting.losses import Losses
from workbench.model.evalset import Content, EvalCase, Invocation
from workbench.model.keys import name_of_case
from workbench.model.trajectory import trajectory_of
from workbench.report.turns import responses_of, said_in
from workbench.store.datasets import Dataset, Row
from workbench.store.datasets.messages import Conversation, ToolResult, Turn, is_messages, read_messages
from workbench.store.datasets.rows import ID, MESSAGES, REFERENCE_MESSAGES
from workbench.store.documents import EvalSetDocument
from workbench.store.errors import StoreError

Side = Literal["reference", "response"]
"""What an agent should have done, or what it did."""

COLUMNS: Mapping[Side, tuple[str, str, str]] = {
    "reference": ("reference", "reference_trajectory", REFERENCE_MESSAGES),
    "response": ("response", "predicted_trajectory", MESSAGES),
}
"""The columns with the answer, the calls and the messages of each side."""


@dataclass
class Session:
    """A session by its id; `columns` are those of a row that say nothing of this side of it.

    `name` is what losses call it: sessions may have the same id.
    """

    eval_id: str
    name: str
    conversation: Conversation
    columns: Mapping[str, Any] = field(default_factory=dict)


def side_in(rows: Sequence[Row]) -> Side:
    """The side that the rows of a dataset have: the reference, where any has one."""
    return "reference" if any(_has(row, "reference") for row in rows) else "response"


def told_side_in(rows: Sequence[Row]) -> Side:
    """The side that tells what happened: the response, where any row has one."""
    return "response" if any(_has(row, "response") for row in rows) else "reference"


def _has(row: Row, side: Side) -> bool:
    return any(row.columns.get(name) is not None for name in COLUMNS[side])


def sessions_of_rows(dataset: Dataset, *, side: Side, losses: Losses) -> Iterator[Session]:
    """One side of the rows that can be read; the others are losses."""
    answer, calls, messages = COLUMNS[side]
    for name, row in sound_rows(dataset, losses):
        conversation = conversation_of(row, side)
        own = {"prompt", answer, calls, ID, *((messages,) if is_messages(row.columns.get(messages)) else ())}
        others = {column: value for column, value in row.columns.items() if column not in own and value is not None}
        for kind in sorted({kind for turn in conversation.turns for kind in turn.left_out}):
            losses.add(f"parts that are no text: {kind}", case=name)
        yield Session(row.eval_id, name, conversation, others)


def sound_rows(dataset: Dataset, losses: Losses) -> Iterator[tuple[str, Row]]:
    """The rows that can be read, each with its name for losses; the others are losses, each with its reason."""
    for name, row in zip(names_of(row.eval_id for row in dataset.rows), dataset.rows, strict=True):
        if row.problems:
            losses.add_unread("row", reason=str(row.problems[0]), case=name)
        else:
            yield name, row


def names_of(eval_ids: Iterable[str]) -> Iterator[str]:
    """What cases with these ids are called, each by a name of its own, also where one has `id#2` for its id."""
    seen: Counter[str] = Counter()
    taken: set[str] = set()
    for eval_id in eval_ids:
        while (name := name_of_case(eval_id, seen[eval_id])) in taken:
            seen[eval_id] += 1
        taken.add(name)
        yield name


def conversation_of(row: Row, side: Side) -> Conversation:
    """What was said on one side of a row: its messages, or the one turn that its columns are."""
    answer, calls = (
        (row.reference, row.reference_trajectory) if side == "reference" else (row.response, row.predicted_trajectory)
    )
    value = row.columns.get(COLUMNS[side][2])
    if is_messages(value):
        conversation = read_messages(value)
        if (conversation.prompt, conversation.answer, conversation.calls) == (row.prompt, answer, calls):
            return conversation
    return Conversation(turns=[Turn(prompt=row.prompt, calls=calls, answer=answer)])


def sessions_of_set(path: Path, *, losses: Losses) -> Iterator[Session]:
    """The sessions of an eval set that are conversations; the other cases are losses.

    Raises StoreError, also where the JSON around the cases is broken.
    """
    document = EvalSetDocument.open(path)
    document.refuse_broken_json()
    for name, entry in zip(names_of(entry.eval_id for entry in document.entries), document.entries, strict=True):
        try:
            case = document.case(entry.index)
        except StoreError as error:
            losses.add_unread("case", reason=str(error), case=name)
            continue
        if case.conversation is None:
            losses.add("a conversation scenario is left out: nothing was said yet", case=name)
            continue
        if not case.conversation:
            losses.add("a case without turns is left out", case=name)
            continue
        for what in _lost_of_case(case):
            losses.add(what, case=name)
        turns = []
        for invocation in case.conversation:
            for what in _lost_of_turn(invocation):
                losses.add(what, case=name)
            turns.append(_turn_of(invocation))
        yield Session(case.eval_id, name, Conversation(turns=turns))


def _turn_of(invocation: Invocation) -> Turn:
    answer = invocation.final_response
    return Turn(
        prompt=_text_of(invocation.user_content),
        calls=None if invocation.intermediate_data is None else trajectory_of(invocation),
        results=[
            ToolResult(item.name, json.dumps(item.response, ensure_ascii=False)) for item in responses_of(invocation)
        ],
        said=[said.text for said in said_in(invocation)],
        answer=None if answer is None else _text_of(answer),
    )


def _text_of(content: Content) -> str | None:
    texts = [part.text for part in content.parts or () if part.text is not None and not part.thought]
    return "\n".join(texts) if texts else None


def _lost_of_case(case: EvalCase) -> Iterator[str]:
    if case.session_input is not None:
        yield "how the session starts (session_input)"
    if case.final_session_state is not None:
        yield "the state in which it should end (final_session_state)"
    if case.rubrics:
        yield "rubrics"
    for name in case.model_extra or ():
        yield f"the field {name}"


def _lost_of_turn(invocation: Invocation) -> Iterator[str]:
    if invocation.rubrics:
        yield "rubrics"
    if invocation.app_details is not None:
        yield "what the agent was told and had (app_details)"
    for name in invocation.model_extra or ():
        yield f"the field {name} of turns"
    for content in (invocation.user_content, invocation.final_response):
        for part in (content and content.parts) or ():
            if part.thought:
                yield "thoughts"
            for kind in part.model_extra or ():
                yield f"parts that are no text: {kind}"
