"""The filter line: the meaning of its words and terms."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.tui.state.case_filter import Query, Trait, cycle_status_filter, parse_query
from workbench.tui.state.case_status import FAILING_STATES, CaseState


def test_words_and_phrases_are_looked_for_without_capitals() -> None:
    assert parse_query('Lamp "turn ON" x:y').words == ("lamp", "turn on", "x:y")


@pytest.mark.parametrize(
    ("text", "states"),
    [
        ("status:failed", {CaseState.FAILED}),
        ("!failed", {CaseState.FAILED}),
        ("!fa", {CaseState.FAILED}),
        ("STATUS:Not-Run", {CaseState.NOT_RUN}),
        ("!not", {CaseState.NOT_RUN, CaseState.NOT_EVALUATED}),
        ("status:failed,error", {CaseState.FAILED, CaseState.ERROR}),
        ("!failed !error", {CaseState.FAILED, CaseState.ERROR}),
        ("is:failing", set(FAILING_STATES)),
    ],
)
def test_statuses_are_named_whole_begun_or_several(text: str, states: Any) -> None:
    assert parse_query(text).states == states


def test_traits_and_tools_have_terms_of_their_own() -> None:
    query = parse_query("is:stale is:d is:marked tool:Set_Device lamp")

    assert query.traits == {Trait.STALE, Trait.DIRTY, Trait.MARKED}
    assert query.tools == ("set_device",)
    assert query.words == ("lamp",)


@pytest.mark.parametrize("text", ["", "   ", "status:", "!", "is:", "tool:", '"'])
def test_what_is_still_being_written_means_every_case(text: str) -> None:
    assert parse_query(text).matches_all


@pytest.mark.parametrize(("text", "known"), [("!broken", "not-run"), ("is:old", "stale, dirty"), ("!a [/b]", "failed")])
def test_what_means_nothing_is_named_with_what_there_is(text: str, known: str) -> None:
    query = parse_query(text)

    assert known in query.problems[0]
    assert not query.matches_all


@given(st.text())
def test_no_text_is_too_odd_to_be_read(text: str) -> None:
    assert isinstance(parse_query(text), Query)
    assert isinstance(cycle_status_filter(text), str)


@given(st.lists(st.from_regex(r"[a-z]{1,6}", fullmatch=True), max_size=3))
def test_the_status_key_goes_round_and_leaves_the_words(words: list[str]) -> None:
    text = " ".join(words)
    seen = [text]
    while (following := cycle_status_filter(seen[-1])) != text:
        seen.append(following)
        assert len(seen) < 20
        assert parse_query(following).words == tuple(words)

    assert {standing for each in seen for standing in parse_query(each).states or ()} >= {
        CaseState.FAILED, CaseState.PASSED, CaseState.NOT_RUN,
    }  # fmt: skip
