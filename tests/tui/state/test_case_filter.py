"""The filter line: the meaning of its words and terms."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.tui.state.case_filter import Query, Trait, cycle_status_filter, parse_query
from workbench.tui.state.case_status import FAILING_STATES, CaseState


def test_words_and_phrases_are_searched_without_regard_to_case() -> None:
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
def test_statuses_may_be_complete_abbreviated_or_several(text: str, states: Any) -> None:
    assert parse_query(text).states == states


def test_traits_and_tools_have_their_own_terms() -> None:
    query = parse_query("is:stale is:d is:marked tool:Set_Device lamp")

    assert query.traits == {Trait.STALE, Trait.DIRTY, Trait.MARKED}
    assert query.tools == ("set_device",)
    assert query.words == ("lamp",)


@pytest.mark.parametrize("text", ["", "   ", "status:", "!", "is:", "tool:", '"'])
def test_an_unfinished_term_matches_every_case(text: str) -> None:
    assert parse_query(text).matches_all


@pytest.mark.parametrize(
    ("text", "known_terms"), [("!broken", "not-run"), ("is:old", "stale, dirty"), ("!a [/b]", "failed")]
)
def test_an_unknown_term_is_reported_with_the_known_ones(text: str, known_terms: str) -> None:
    query = parse_query(text)

    assert known_terms in query.problems[0]
    assert not query.matches_all


@given(st.text())
def test_any_text_can_be_parsed(text: str) -> None:
    assert isinstance(parse_query(text), Query)
    assert isinstance(cycle_status_filter(text), str)


@given(st.lists(st.from_regex(r"[a-z]{1,6}", fullmatch=True), max_size=3))
def test_the_status_key_cycles_and_keeps_the_words(words: list[str]) -> None:
    text = " ".join(words)
    queries = [text]
    while (next_query := cycle_status_filter(queries[-1])) != text:
        queries.append(next_query)
        assert len(queries) < 20
        assert parse_query(next_query).words == tuple(words)

    assert {state for query in queries for state in parse_query(query).states or ()} >= {
        CaseState.FAILED, CaseState.PASSED, CaseState.NOT_RUN,
    }  # fmt: skip
