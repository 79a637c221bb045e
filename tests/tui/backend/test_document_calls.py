"""Document edits from the browser, and the names that they use."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.engine.workspace import Workspace
from workbench.model.identity import CaseKey, JobKey
from workbench.model.results import TurnResult
from workbench.store.errors import StoreError
from workbench.store.evalsets.evalset_document import EvalSetDocument
from workbench.store.model_answers import CallKind, RecordedModelCall, RecordedModels, RecordingStore
from workbench.tui.backend.document_calls import (
    add_case,
    append_cases,
    check_scenario_text,
    copy_cases,
    delete_cases,
    find_known_calls,
    move_case,
    read_expected_turns,
    rename_case,
)
from workbench.tui.state.call_line import list_completions
from workbench.tui.state.case_filter import (
    check_case_id,
    check_set_path,
    complete_set_path,
    derive_set_id,
    find_free_name,
    propose_copy_path,
)

CASE = '{"eval_id": "a", /* why */ "conversation": []}'
LEGACY = '[{"name": "a", "data": [{"query": "Hi", "reference": "Hello"}]}]'


def open_set(folder: Path, text: str, name: str = "s.evalset.json") -> EvalSetDocument:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return EvalSetDocument.open(path)


def make_set_text(*cases: str) -> str:
    return f'{{"eval_set_id": "s", "eval_cases": [{", ".join(cases)}]}}'


def list_ids(document: EvalSetDocument) -> list[str]:
    return [entry.eval_id for entry in document.entries]


@pytest.mark.parametrize("text", [make_set_text(CASE), LEGACY])
def test_a_new_case_is_valid_in_the_format_of_its_file(tmp_path: Path, make: Any, text: str) -> None:
    document = open_set(tmp_path, text)

    add_case(document, "b", after=make.key("a"))
    add_case(document, "z", after=None)
    rename_case(document, make.key("z"), "c")

    assert list_ids(document) == ["a", "b", "c"]
    assert all(entry.problem is None for entry in document.entries)
    assert document.case(1).conversation


def test_cases_move_at_most_to_the_ends_of_the_file(tmp_path: Path, make: Any) -> None:
    document = open_set(tmp_path, make_set_text(*(CASE.replace('"a"', f'"{name}"') for name in "abc")))

    move_case(document, make.key("a"), 1)
    assert list_ids(document) == ["b", "a", "c"]
    move_case(document, make.key("a"), -9)
    assert list_ids(document) == ["a", "b", "c"]


def test_cases_keep_their_comments_in_another_set(tmp_path: Path, make: Any) -> None:
    source = open_set(tmp_path, make_set_text(CASE, CASE.replace('"a"', '"b"').replace("/* why */ ", "")))
    target = open_set(tmp_path, make_set_text(), "t.evalset.json")

    copies = copy_cases(source, [make.key("b"), make.key("a")])
    append_cases(target, copies)
    delete_cases(source, [make.key("a"), make.key("b")])

    assert (list_ids(source), list_ids(target)) == ([], ["a", "b"])
    assert "/* why */" in target.case_text(0)
    assert json.loads(target.case_text(1)) == {"eval_id": "b", "conversation": []}


def test_cases_with_a_used_id_or_another_format_are_refused(tmp_path: Path, make: Any) -> None:
    source = open_set(tmp_path, make_set_text(CASE))
    copies = copy_cases(source, [make.key("a")])

    with pytest.raises(StoreError, match="already has a case 'a'"):
        append_cases(source, copies)
    with pytest.raises(StoreError, match="format"):
        append_cases(open_set(tmp_path, "[" + LEGACY[1:-1].replace('"a"', '"b"') + "]", "l.test.json"), copies)


def test_a_missing_case_is_named_in_the_error(tmp_path: Path, make: Any) -> None:
    with pytest.raises(StoreError, match="'x' is no longer in this file"):
        delete_cases(open_set(tmp_path, make_set_text(CASE)), [make.key("x")])


@pytest.mark.parametrize(
    ("eval_id", "problem"),
    [
        ("", "expected"),
        ("  ", "expected"),
        (" a", "blank"),
        ("a\x1b", "control"),
        ("a\nb", "control"),
        ("old", "already"),
    ],
)
def test_invalid_ids_are_refused_with_a_reason(eval_id: str, problem: str) -> None:
    assert problem in (check_case_id(eval_id, {"old"}) or "")
    assert check_case_id("new [/b] 两", {"old"}) is None


@pytest.mark.parametrize(
    "path", ["", "/etc/x", "../x", "a/../../x", "a\\b", "C:/x", ".hidden/x", "a/", "old", "old.evalset.json", " x"]
)
def test_outside_hidden_used_or_malformed_paths_are_refused(path: str) -> None:
    assert check_set_path(path, {"old.evalset.json"})


def test_a_path_gets_the_suffix_of_an_eval_set() -> None:
    assert complete_set_path("a/b") == "a/b.evalset.json"
    assert complete_set_path("./b.test.json") == "b.test.json"
    assert check_set_path("a/new", {"old.evalset.json"}) is None
    assert derive_set_id("a/my set-1.evalset.json") == "my_set_1"
    assert propose_copy_path("a/x.test.json", {"a/x.test.json", "a/x_copy.test.json"}) == "a/x_copy_2.test.json"


@given(st.text(max_size=20), st.sets(st.text(max_size=5), max_size=4))
def test_an_accepted_path_is_inside_the_project(path: str, used_names: set[str]) -> None:
    if check_set_path(path, used_names) is None:
        full_path = Path("/project") / complete_set_path(path)
        assert "/project" in map(str, full_path.parents)
        assert complete_set_path(path) not in used_names


@given(st.text(max_size=3), st.sets(st.text(max_size=5), max_size=6))
def test_a_free_name_is_not_in_use(name: str, used_names: set[str]) -> None:
    assert find_free_name(name, used_names) not in used_names


def make_answered_turn(prompt: str) -> TurnResult:
    invocation = {"user_content": {"parts": [{"text": prompt}]}, "final_response": {"parts": [{"text": "actual"}]}}
    return TurnResult.model_validate({"invocation": invocation, "duration_seconds": 0.1})


@pytest.mark.parametrize(
    "text",
    [
        '[{"name": "a", "data": [{"query": "Hi", "reference": "Hello"}, {"query": "Bye", "reference": "Bye"}]}]',
        make_set_text(
            '{"eval_id": "a", "conversation": [{"user_content": {"parts": [{"text": "Hi"}]}, "note": 1}, '
            '{"user_content": {"parts": [{"text": "Bye"}]}}]}'
        ),
    ],
)
def test_expected_turns_are_those_of_the_file_if_their_messages_are_unchanged(tmp_path: Path, text: str) -> None:
    document = open_set(tmp_path, text)
    raw = document.raw_case(0)
    key = CaseKey(target="t", eval_set="s.evalset.json", eval_id="a")
    turns = [make_answered_turn("Hi"), make_answered_turn("changed"), make_answered_turn("more")]

    with Workspace.open(tmp_path) as workspace:
        found = read_expected_turns(workspace, key, turns)
        gone = read_expected_turns(workspace, key.model_copy(update={"eval_id": "b"}), turns)

    assert found.turns == [(raw.get("data") or raw["conversation"])[0], None]
    assert found.format is document.format
    assert gone.turns == ()


_SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}


@pytest.mark.parametrize(
    "request_data",
    [
        {"body": {"tools": [{"type": "function", "function": {"name": "forecast", "parameters": _SCHEMA}}]}},
        {"body": {"tools": [{"name": "forecast", "input_schema": _SCHEMA}]}},
        {"body": {"tools": [{"functionDeclarations": [{"name": "forecast", "parametersJsonSchema": _SCHEMA}]}]}},
    ],
)
def test_tools_that_the_agent_offered_a_model_complete_a_call(tmp_path: Path, request_data: dict[str, Any]) -> None:
    open_set(tmp_path, make_set_text(CASE))
    (tmp_path / "workbench.toml").write_text(
        '[targets.bot]\nkind = "function"\ntarget = "bot:answer"\neval_sets = ["*.evalset.json"]\n', encoding="utf-8"
    )
    job = JobKey(CaseKey(target="bot", eval_set="s.evalset.json", eval_id="a"))
    with contextlib.closing(RecordingStore(tmp_path)) as store:
        store.write(job, RecordedModels(CallKind.MODELS, job, (RecordedModelCall(request=request_data),)), name="n")

    with Workspace.open(tmp_path) as workspace:
        known = find_known_calls(workspace, "bot", ["s.evalset.json"], [])

    assert [found.label for found in list_completions("fo", known)] == ["forecast"]
    assert known.types == {("forecast", "city"): "string", ("forecast", "days"): "integer"}


def test_the_problem_of_a_scenario_names_its_place_only_if_it_has_one() -> None:
    assert check_scenario_text("[]") == "found a list, expected an object"
    assert check_scenario_text('{"starting_prompt": 1}') == "starting_prompt: found 1, expected a text"
