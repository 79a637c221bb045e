"""Drafts: typed text becomes a value of the right type, or an error message explains why it cannot."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tui.state.cases import FREE, TEXTS
from workbench.tui.state.case_edits import Slot
from workbench.tui.state.case_outline import ABSENT, Input
from workbench.tui.state.editor_state import Draft, Invalid, TextForm, is_plain


def make_slot(input: Input) -> Slot:
    return Slot(place=("x",), title="x", input=input)


@given(FREE, st.sampled_from([Input.VALUE, Input.JSON]))
def test_an_unchanged_draft_is_the_original_value(value: Any, input: Input) -> None:
    draft = Draft.begin(make_slot(input), value)

    assert draft.is_untouched
    assert draft.value() == value
    assert type(draft.value()) is type(value)


@given(TEXTS, st.sampled_from([Input.LINE, Input.TEXT]))
def test_any_text_can_be_typed(text: str, input: Input) -> None:
    draft = Draft.begin(make_slot(input), text)

    assert draft.value() == text
    assert is_plain(draft.text)


@given(FREE)
def test_cycling_through_all_types_keeps_the_value(value: Any) -> None:
    draft = Draft.begin(make_slot(Input.JSON), value)
    as_value = Draft(make_slot(Input.VALUE), TextForm.JSON, draft.text, value)

    for _ in range(len(TextForm) - 1):  # a call is no such type
        as_value = as_value.next_form()

    if not isinstance(value, str):
        assert as_value.form is TextForm.JSON
        assert as_value.value() == value


@pytest.mark.parametrize(
    ("text", "form", "why"),
    [
        ("", TextForm.NUMBER, "found nothing, expected a number"),
        ("12a", TextForm.NUMBER, 'found "12a", expected a number'),
        ("true", TextForm.NUMBER, "expected a number"),
        ("1e999", TextForm.NUMBER, "expected a number"),
        ("yes", TextForm.TRUTH, "expected true or false"),
        ("none", TextForm.NULL, "expected null"),
        ('{"a": 1,}', TextForm.JSON, "expected a key in double quotes"),
        ('{"a": 1, "a": 2}', TextForm.JSON, "duplicate key"),
        ("[\n1\n2]", TextForm.JSON, "line 3, column 1"),
        ("NaN", TextForm.JSON, "found NaN, expected a JSON number"),
        ("[" * 100_000, TextForm.JSON, "nested too deeply"),
        ("", TextForm.JSON, "found the end, expected a value"),
        ("{} x", TextForm.JSON, 'line 1, column 4: found "x", expected nothing after the value'),
    ],
)
def test_an_invalid_text_has_a_reason(text: str, form: TextForm, why: str) -> None:
    draft = Draft(make_slot(Input.VALUE), form, text, None)

    with pytest.raises(Invalid, match=why):
        draft.value()
    assert why in (draft.problem or "")


@pytest.mark.parametrize("input", [Input.LINE, Input.TEXT])
def test_a_text_stays_a_text(input: Input) -> None:
    assert "in quotes" in (Draft(make_slot(input), TextForm.JSON, "3", "x").problem or "")
    assert Draft(make_slot(input), TextForm.JSON, '"a\\tb"', "x").value() == "a\tb"


def test_a_new_value_starts_empty_and_differs_from_null() -> None:
    assert Draft.begin(make_slot(Input.VALUE), ABSENT) == Draft(make_slot(Input.VALUE), TextForm.TEXT, "", ABSENT)
    assert Draft.begin(make_slot(Input.JSON), ABSENT).text == ""
    assert Draft.begin(make_slot(Input.VALUE), None).form is TextForm.NULL
    assert Draft.begin(make_slot(Input.VALUE), ABSENT).is_new and not Draft.begin(make_slot(Input.VALUE), None).is_new


def test_a_text_with_a_tab_opens_as_a_text() -> None:
    draft = Draft.begin(make_slot(Input.TEXT), "a\tb\n\tc")
    assert (draft.form, draft.text, draft.value()) == (TextForm.TEXT, "a\tb\n\tc", "a\tb\n\tc")
    assert Draft.begin(make_slot(Input.TEXT), "a\rb").form is TextForm.JSON


def test_an_id_has_one_line() -> None:
    assert Draft(make_slot(Input.LINE), TextForm.TEXT, "a\nb", "x").problem == "expected one line"


def test_a_long_text_is_left_to_the_users_editor() -> None:
    assert Draft.begin(make_slot(Input.TEXT), "x" * 100_000).is_too_long
    assert not Draft.begin(make_slot(Input.TEXT), "x").is_too_long
