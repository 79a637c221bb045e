"""Cases and executions built from rows equal those validated from the same data."""

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
def test_a_row_equals_its_validated_data(prompt: str | None, answer: str | None, calls: Any) -> None:
    turn = make_row_turn(make_row_prompt(prompt), answer, calls)
    data = {
        "user_content": {"role": "user", "parts": [] if prompt is None else [{"text": prompt}]},
        "final_response": None if answer is None else {"role": "model", "parts": [{"text": answer}]},
        "intermediate_data": None
        if calls is None
        else {"tool_uses": [{"name": name, "args": args} for name, args in calls]},
    }

    for built, validated in (
        (make_row_case("a", turn), EvalCase.model_validate({"eval_id": "a", "conversation": [data]})),
        (
            make_row_execution(turn, seconds=1.5),
            Execution.model_validate({"turns": [{"invocation": data, "duration_seconds": 1.5}]}),
        ),
    ):
        assert built == validated
        assert list(iterate_state(built)) == list(iterate_state(validated))


def test_rows_share_no_mutable_state() -> None:
    one, other = (make_row_turn(make_row_prompt("a"), None, [ToolCall("f")]) for _ in range(2))

    assert one.intermediate_data is not None
    one.intermediate_data.tool_responses.append(None)  # type: ignore[arg-type]
    one.intermediate_data.__pydantic_extra__["b"] = 1

    assert other == make_row_turn(make_row_prompt("a"), None, [ToolCall("f")])


def iterate_state(value: Any) -> Any:
    """Yield all pydantic state of a value and of its nested values, in order."""
    if isinstance(value, BaseModel):
        yield type(value), value.model_fields_set, value.__pydantic_extra__, value.__pydantic_private__
        for name, inner in value.__dict__.items():
            yield name
            yield from iterate_state(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from iterate_state(inner)
    else:
        yield value
