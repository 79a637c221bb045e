"""Merging: the result has the changes of both sides, or there is no result."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.engine.set_files import Merge, merge, suggest_small_id
from workbench.model.identity import CaseKey
from workbench.store.evalsets.evalset_document import EvalSetDocument

PROMPT = ("conversation", 0, "user_content", "parts", 0, "text")


def case(eval_id: str, prompt: str = "hello") -> dict[str, Any]:
    return {"eval_id": eval_id, "conversation": [{"user_content": {"parts": [{"text": prompt}]}}]}


def document(content: bytes) -> EvalSetDocument:
    return EvalSetDocument(Path("lights.evalset.json"), content, None)


def make_content(*eval_ids: str, indent: int | None = 2) -> bytes:
    data = {"eval_set_id": "lights", "eval_cases": [case(eval_id) for eval_id in eval_ids]}
    return json.dumps(data, indent=indent).encode()


BASE = make_content("a", "b", "c")
Change = Callable[[EvalSetDocument], object]


def merge_changes(ours: Change, theirs: Change, base: bytes = BASE) -> Merge:
    sides = document(base), document(base)
    ours(sides[0])
    theirs(sides[1])
    return merge(document(base), *sides)


def read_prompts(content: bytes | None) -> dict[str, str]:
    assert content is not None
    parsed_document = document(content)
    return {entry.eval_id: parsed_document.raw_case(entry.index)["conversation"][0]["user_content"]["parts"][0]["text"]
            for entry in parsed_document.entries}  # fmt: skip


def change_prompt(text: str, eval_id: str) -> Change:
    return lambda side: side.set_value(PROMPT, text, case=side.find_index(eval_id))


def test_changes_of_different_cases_are_merged() -> None:
    outcome = merge_changes(change_prompt("mine", "a"), change_prompt("theirs", "c"))

    assert read_prompts(outcome.content) == {"a": "mine", "b": "hello", "c": "theirs"}
    assert [item.eval_id for item in outcome.ours] == ["a"] and [item.eval_id for item in outcome.theirs] == ["c"]
    assert outcome.in_both == ()


def test_added_and_removed_cases_are_merged() -> None:
    outcome = merge_changes(
        lambda side: (side.remove_case(0), side.insert_case(2, case("mine"))),
        lambda side: (side.remove_case(1), side.insert_case(0, case("theirs"))),
    )

    assert list(read_prompts(outcome.content)) == ["theirs", "c", "mine"]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (change_prompt("mine", "a"), change_prompt("theirs", "a")),
        (change_prompt("mine", "a"), lambda side: side.remove_case(0)),
        (lambda side: side.remove_case(0), change_prompt("theirs", "a")),
        (lambda side: side.insert_case(0, case("d", "mine")), lambda side: side.insert_case(3, case("d", "theirs"))),
    ],
)
def test_a_case_changed_on_both_sides_is_left_to_the_user(ours: Change, theirs: Change) -> None:
    outcome = merge_changes(ours, theirs)

    assert outcome.content is None
    assert outcome.in_both in (("a",), ("d",))


def test_the_same_change_on_both_sides_is_made_once() -> None:
    outcome = merge_changes(lambda side: side.insert_case(3, case("d")), lambda side: side.insert_case(3, case("d")))

    assert list(read_prompts(outcome.content)) == ["a", "b", "c", "d"]


def test_changed_fields_of_the_set_and_changed_cases_are_merged() -> None:
    for ours, theirs in ((0, 1), (1, 0)):
        changes: list[Change] = [lambda side: side.set_value(("name",), "Lights"), change_prompt("hi", "b")]
        content = merge_changes(changes[ours], changes[theirs]).content

        assert read_prompts(content)["b"] == "hi" and b'"name": "Lights"' in (content or b"")


def test_changes_outside_cases_on_both_sides_are_left_to_the_user() -> None:
    outcome = merge_changes(lambda side: side.set_value(("name",), "mine"), lambda side: side.move_case(0, 2))

    assert outcome.content is None and outcome.in_both == ()


def test_a_merge_keeps_changed_comments() -> None:
    base = BASE.replace(b'    {\n      "eval_id": "b"', b'    // what was there\n    {\n      "eval_id": "b"')
    theirs = base.replace(b"what was there", b"what they say")

    sides = document(base), document(theirs)
    sides[0].insert_case(3, case("mine"))
    content = merge(document(base), *sides).content

    assert (
        content is not None and b"what they say" in content and list(read_prompts(content)) == ["a", "b", "c", "mine"]
    )


def test_sets_with_duplicate_ids_are_left_to_the_user() -> None:
    base = make_content("a", "a", "b")

    assert (
        merge_changes(lambda side: side.set_value(PROMPT, "mine", case=1), change_prompt("theirs", "b"), base).content
        is None
    )


IDS = "abcdef"
sides = st.lists(
    st.one_of(
        st.tuples(st.just("change"), st.sampled_from(IDS), st.text(max_size=3)),
        st.tuples(st.just("remove"), st.sampled_from(IDS), st.just("")),
        st.tuples(st.just("add"), st.sampled_from("uvwxyz"), st.integers(0, 6).map(str)),
        st.tuples(st.just("move"), st.sampled_from(IDS), st.integers(0, 6).map(str)),
        st.tuples(st.just("name"), st.just(""), st.text(max_size=3)),
    ),
    max_size=4,
)


def apply_changes(side: EvalSetDocument, changes: list[tuple[str, str, str]]) -> None:
    for action, eval_id, argument in changes:
        ids = [entry.eval_id for entry in side.entries]
        if action == "name":
            side.set_value(("name",), argument)
        elif action == "add":
            if eval_id not in ids:
                side.insert_case(min(int(argument), len(ids)), case(eval_id, argument))
        elif eval_id in ids:
            if action == "change":
                change_prompt(argument, eval_id)(side)
            elif action == "remove":
                side.remove_case(ids.index(eval_id))
            else:
                side.move_case(ids.index(eval_id), min(int(argument), len(ids) - 1))


@settings(max_examples=200, deadline=None)
@given(sides, sides, st.sampled_from([None, 2]))
def test_a_merge_loses_no_change_of_either_side(
    ours: list[tuple[str, str, str]], theirs: list[tuple[str, str, str]], indent: int | None
) -> None:
    base = make_content(*IDS, indent=indent)
    before = read_prompts(base)
    our_document, their_document = document(base), document(base)
    apply_changes(our_document, ours)
    apply_changes(their_document, theirs)

    outcome = merge(document(base), our_document, their_document)

    if outcome.content is None:
        return
    one, two, result = (
        read_prompts(our_document.content()),
        read_prompts(their_document.content()),
        read_prompts(outcome.content),
    )
    for eval_id in {*before, *one, *two}:
        changed = one if one.get(eval_id) != before.get(eval_id) else two
        assert result.get(eval_id) == changed.get(eval_id)
    names = {document(content).name for content in (our_document.content(), their_document.content())} - {None}
    assert document(outcome.content).name in names or not names


@pytest.mark.parametrize(
    ("eval_id", "expected"), [("day", "day-small-2"), ("\x1b[31mday\n", "␛[31mday-small"), ("", "-small")]
)
def test_the_id_of_a_smaller_case_is_free_and_has_no_control_characters(eval_id: str, expected: str) -> None:
    case = CaseKey(target="home", eval_set="day.evalset.json", eval_id=eval_id)

    assert suggest_small_id(case, {"day-small"}) == expected
