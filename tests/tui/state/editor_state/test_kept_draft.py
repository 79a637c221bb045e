"""Drafts survive a round trip through a file."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from workbench.model.identity import CaseKey
from workbench.tui.state.case_edits import InsertItem, Slot
from workbench.tui.state.case_outline import ABSENT, Input
from workbench.tui.state.editor_state import Draft, Edited, TextForm, dump_draft, load_draft

texts = st.text(st.characters(codec=None))  # lone surrogates too
places = st.lists(texts | st.integers(0, 9), max_size=4).map(tuple)
values = st.recursive(st.none() | st.booleans() | st.integers() | texts, lambda inner: st.lists(inner, max_size=3))
slots = st.builds(
    Slot,
    place=places,
    title=texts,
    input=st.sampled_from(Input),
    index=st.none() | st.integers(0, 9),
    template=values,
    hole=st.none() | places,
    instead_of=st.none() | places,
)
drafts = st.builds(Draft, slot=slots, form=st.sampled_from(TextForm), text=texts, original=values | st.just(ABSENT))
cases = st.builds(CaseKey, target=st.just("t"), eval_set=st.just("s"), eval_id=st.text(), occurrence=st.integers(0, 3))
edited_values = st.builds(Edited, texts, st.none() | cases)


@given(edited_values, drafts)
def test_a_stored_draft_is_loaded_unchanged(edited_value: Edited, draft: Draft) -> None:
    text = json.dumps(dump_draft(edited_value, draft))

    assert load_draft(json.loads(text)) == (edited_value, draft)


@given(
    st.none() | st.integers() | st.lists(values) | st.dictionaries(st.sampled_from(["slot", "case", "text"]), values)
)
def test_invalid_json_is_not_a_draft(kept: object) -> None:
    assert load_draft(kept) is None


def test_the_draft_of_a_new_call_of_an_earlier_version_is_a_call() -> None:
    template = {"name": "", "args": {}}
    slot = Slot(place=("calls",), index=0, title="call", input=Input.LINE, template=template, hole=("name",))
    text = json.dumps(dump_draft(Edited("a.evalset.json", None), Draft(slot, TextForm.TEXT, "set_light", ABSENT)))

    loaded = load_draft(json.loads(text))

    assert loaded is not None
    edit = loaded[1].slot.edit(loaded[1].value(), {"calls": []})
    assert edit == InsertItem(("calls",), 0, {"name": "set_light", "args": {}})
