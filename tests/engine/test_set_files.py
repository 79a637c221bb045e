"""Merging: what both sides did is in the result, or there is none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.engine.set_files import Merge, merge
from workbench.store.evalsets.evalset_document import EvalSetDocument

PROMPT = ("conversation", 0, "user_content", "parts", 0, "text")


def case(eval_id: str, prompt: str = "hello") -> dict[str, Any]:
    return {"eval_id": eval_id, "conversation": [{"user_content": {"parts": [{"text": prompt}]}}]}


def document(content: bytes) -> EvalSetDocument:
    return EvalSetDocument(Path("lights.evalset.json"), content, None)


def content_of(*eval_ids: str, indent: int | None = 2) -> bytes:
    data = {"eval_set_id": "lights", "eval_cases": [case(eval_id) for eval_id in eval_ids]}
    return json.dumps(data, indent=indent).encode()


BASE = content_of("a", "b", "c")
Change = Callable[[EvalSetDocument], object]


def merged(ours: Change, theirs: Change, base: bytes = BASE) -> Merge:
    sides = document(base), document(base)
    ours(sides[0])
    theirs(sides[1])
    return merge(document(base), *sides)


def prompts(content: bytes | None) -> dict[str, str]:
    assert content is not None
    read = document(content)
    return {entry.eval_id: read.raw_case(entry.index)["conversation"][0]["user_content"]["parts"][0]["text"]
            for entry in read.entries}  # fmt: skip


def say(text: str, eval_id: str) -> Change:
    return lambda side: side.set_value(PROMPT, text, case=side.find_index(eval_id))


def test_changes_of_different_cases_go_together() -> None:
    both = merged(say("mine", "a"), say("theirs", "c"))

    assert prompts(both.content) == {"a": "mine", "b": "hello", "c": "theirs"}
    assert [item.eval_id for item in both.ours] == ["a"] and [item.eval_id for item in both.theirs] == ["c"]
    assert both.in_both == ()


def test_cases_that_come_and_go_go_together() -> None:
    both = merged(
        lambda side: (side.remove_case(0), side.insert_case(2, case("mine"))),
        lambda side: (side.remove_case(1), side.insert_case(0, case("theirs"))),
    )

    assert list(prompts(both.content)) == ["theirs", "c", "mine"]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (say("mine", "a"), say("theirs", "a")),
        (say("mine", "a"), lambda side: side.remove_case(0)),
        (lambda side: side.remove_case(0), say("theirs", "a")),
        (lambda side: side.insert_case(0, case("d", "mine")), lambda side: side.insert_case(3, case("d", "theirs"))),
    ],
)
def test_a_case_that_both_changed_is_left_to_the_user(ours: Change, theirs: Change) -> None:
    both = merged(ours, theirs)

    assert both.content is None
    assert both.in_both in (("a",), ("d",))


def test_the_same_change_on_both_sides_is_made_once() -> None:
    both = merged(lambda side: side.insert_case(3, case("d")), lambda side: side.insert_case(3, case("d")))

    assert list(prompts(both.content)) == ["a", "b", "c", "d"]


def test_what_the_set_says_of_itself_goes_with_cases_of_the_other_side() -> None:
    for ours, theirs in ((0, 1), (1, 0)):
        changes: list[Change] = [lambda side: side.set_value(("name",), "Lights"), say("hi", "b")]
        content = merged(changes[ours], changes[theirs]).content

        assert prompts(content)["b"] == "hi" and b'"name": "Lights"' in (content or b"")


def test_both_sides_having_changed_more_than_cases_is_left_to_the_user() -> None:
    both = merged(lambda side: side.set_value(("name",), "mine"), lambda side: side.move_case(0, 2))

    assert both.content is None and both.in_both == ()


def test_comments_of_both_sides_stay() -> None:
    base = BASE.replace(b'    {\n      "eval_id": "b"', b'    // what was there\n    {\n      "eval_id": "b"')
    theirs = base.replace(b"what was there", b"what they say")

    sides = document(base), document(theirs)
    sides[0].insert_case(3, case("mine"))
    content = merge(document(base), *sides).content

    assert content is not None and b"what they say" in content and list(prompts(content)) == ["a", "b", "c", "mine"]


def test_ids_that_are_there_twice_are_left_to_the_user() -> None:
    base = content_of("a", "a", "b")

    assert merged(lambda side: side.set_value(PROMPT, "mine", case=1), say("theirs", "b"), base).content is None


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


def carry_out(side: EvalSetDocument, changes: list[tuple[str, str, str]]) -> None:
    for what, eval_id, argument in changes:
        ids = [entry.eval_id for entry in side.entries]
        if what == "name":
            side.set_value(("name",), argument)
        elif what == "add":
            if eval_id not in ids:
                side.insert_case(min(int(argument), len(ids)), case(eval_id, argument))
        elif eval_id in ids:
            if what == "change":
                say(argument, eval_id)(side)
            elif what == "remove":
                side.remove_case(ids.index(eval_id))
            else:
                side.move_case(ids.index(eval_id), min(int(argument), len(ids) - 1))


@settings(max_examples=200, deadline=None)
@given(sides, sides, st.sampled_from([None, 2]))
def test_nothing_of_either_side_is_lost(
    ours: list[tuple[str, str, str]], theirs: list[tuple[str, str, str]], indent: int | None
) -> None:
    base = content_of(*IDS, indent=indent)
    before = prompts(base)
    mine, other = document(base), document(base)
    carry_out(mine, ours)
    carry_out(other, theirs)

    both = merge(document(base), mine, other)

    if both.content is None:
        return
    one, two, result = prompts(mine.content()), prompts(other.content()), prompts(both.content)
    for eval_id in {*before, *one, *two}:
        changed = one if one.get(eval_id) != before.get(eval_id) else two
        assert result.get(eval_id) == changed.get(eval_id)
    names = {document(content).name for content in (mine.content(), other.content())} - {None}
    assert document(both.content).name in names or not names
