"""The filter line: the meaning of its words and terms; and the paths of new sets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.model.target import AgentKind, Target
from workbench.store.project_discovery import NewSets, Project
from workbench.tui.state.browser_list import ListedSet
from workbench.tui.state.case_filter import (
    Query,
    Trait,
    cycle_status_filter,
    parse_query,
    problem_of_set_name,
    propose_set_name,
    warning_of_set_name,
)
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
    query = parse_query("is:stale is:d is:marked tool:Set_Device lamp IN:Home")

    assert query.traits == {Trait.STALE, Trait.DIRTY, Trait.MARKED}
    assert query.tools == ("set_device",)
    assert query.places == ("home",)
    assert query.words == ("lamp",)


@pytest.mark.parametrize("text", ["", "   ", "status:", "!", "is:", "tool:", "in:", '"'])
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


# Paths of new sets.

ROOT = Path("/project")
SETS = [
    ListedSet("b/x.evalset.json", "other"),
    ListedSet("a/y.evalset.json", "home"),
    ListedSet("a/z.test.json", "home"),
]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("a/new.evalset.json", None),
        ("new.test.json", None),
        ("a/y.evalset.json", "already"),
        ("new.json", "ends in"),
        ("/etc/new.evalset.json", "inside the project"),
        ("a/../../new.evalset.json", "inside the project"),
        ("a/new set.evalset.json", "letters, digits"),
        (".evalset.json", "letters, digits"),
    ],
)
def test_the_name_of_a_new_set_is_checked(name: str, problem: str | None) -> None:
    problem_found = problem_of_set_name(name, sets=SETS)

    assert (problem_found is None) if problem is None else (problem_found is not None and problem in problem_found)


def make_new_sets(**eval_sets: Sequence[str]) -> NewSets:
    """Return the sets that can be created in a project with these targets and eval-set patterns."""
    targets = {
        name: Target(name=name, kind=AgentKind.FUNCTION, location="agent:f", path=ROOT, eval_sets=tuple(patterns))
        for name, patterns in eval_sets.items()
    }
    return NewSets(Project(root=ROOT, targets=targets, eval_sets=()))


def test_proposed_names_are_not_in_use() -> None:
    anywhere = make_new_sets(home=["**/*.json"])
    used_sets = [*SETS, ListedSet("a/chats.evalset.json", "home")]

    assert propose_set_name(SETS, target="home", places=anywhere) == "a/chats.evalset.json"
    assert propose_set_name(used_sets, target="home", places=anywhere) == "a/chats_2.evalset.json"
    assert propose_set_name([], target="home", places=anywhere) == "chats.evalset.json"


@pytest.mark.parametrize(
    ("patterns", "expected_name"),
    [
        (["a/y.evalset.json", "a/kept_*.evalset.json"], "a/kept_chats.evalset.json"),
        (["a/?.*.json", "a/*.test.json"], "a/chats.test.json"),
        (["a/y.evalset.json", "c/*.json"], "c/chats.evalset.json"),
        (["a/y.evalset.json", "c/new.evalset.json"], "c/new.evalset.json"),
        (["a/y.evalset.json", "a/z.test.json"], "a/chats.evalset.json"),  # a new file cannot belong to the agent
    ],
)
def test_a_new_set_is_proposed_at_a_path_that_its_agent_lists(patterns: list[str], expected_name: str) -> None:
    assert propose_set_name(SETS, target="home", places=make_new_sets(other=["b/*"], home=patterns)) == expected_name


def test_a_name_for_a_set_of_another_agent_or_none_gets_a_warning() -> None:
    project = make_new_sets(other=["b/*"], home=["a/*"])

    assert warning_of_set_name("a/new.evalset.json", target="home", places=project) is None
    other_agent_warning = warning_of_set_name("b/new.evalset.json", target="home", places=project)
    assert (
        other_agent_warning
        == "it will belong to the agent other: workbench.toml does not list it under eval_sets of home"
    )
    no_agent_warning = warning_of_set_name("new.evalset.json", target="home", places=project)
    assert no_agent_warning == "it will belong to no agent: workbench.toml does not list it under eval_sets of home"
