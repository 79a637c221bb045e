"""Rows as cases and executions: as if they had been read from what they stand for."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from workbench.model.evalset import EvalCase
from workbench.model.results import Execution, make_row_case, make_row_execution, make_row_prompt, make_row_turn
from workbench.model.trace import ToolCall

TEXT = st.none() | st.text(max_size=5) | st.just("\ud800")
CALLS = st.none() | st.lists(
    st.builds(ToolCall, st.text(max_size=3), st.none() | st.dictionaries(st.text(max_size=2), st.integers())),
    max_size=3,
)


@given(TEXT, TEXT, CALLS)
def test_a_row_is_what_its_data_would_be_read_as(prompt: str | None, answer: str | None, calls: Any) -> None:
    turn = make_row_turn(make_row_prompt(prompt), answer, calls)
    data = {
        "user_content": {"role": "user", "parts": [] if prompt is None else [{"text": prompt}]},
        "final_response": None if answer is None else {"role": "model", "parts": [{"text": answer}]},
        "intermediate_data": None
        if calls is None
        else {"tool_uses": [{"name": name, "args": args} for name, args in calls]},
    }

    for made, read in (
        (make_row_case("a", turn), EvalCase.model_validate({"eval_id": "a", "conversation": [data]})),
        (
            make_row_execution(turn, seconds=1.5),
            Execution.model_validate({"turns": [{"invocation": data, "duration_seconds": 1.5}]}),
        ),
    ):
        assert made == read
        assert list(everything(made)) == list(everything(read))


def test_rows_share_nothing_that_could_be_changed() -> None:
    one, other = (make_row_turn(make_row_prompt("a"), None, [ToolCall("f")]) for _ in range(2))

    assert one.intermediate_data is not None
    one.intermediate_data.tool_responses.append(None)  # type: ignore[arg-type]
    one.intermediate_data.__pydantic_extra__["b"] = 1

    assert other == make_row_turn(make_row_prompt("a"), None, [ToolCall("f")])


def everything(value: Any) -> Any:
    """All that pydantic knows of a value, the values in it included, in order."""
    if isinstance(value, BaseModel):
        yield type(value), value.model_fields_set, value.__pydantic_extra__, value.__pydantic_private__
        for name, inner in value.__dict__.items():
            yield name
            yield from everything(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from everything(inner)
    else:
        yield value
