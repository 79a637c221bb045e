"""Opening: every format and style lists its cases, and one broken case hides no other."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from workbench.model.evalset import IntermediateData
from workbench.model.identity import group_cases_by_name
from workbench.store.errors import StoreError
from workbench.store.evalsets.case_frame import DocumentFormat
from workbench.store.evalsets.evalset_document import EvalSetDocument

STYLES = [
    "kettle.evalset.json",
    "ascii_escapes.evalset.json",
    "one_line.evalset.json",
    "camel_case_tabs.evalset.json",
    "mixed_crlf_bom.evalset.json",
]


@pytest.mark.parametrize("name", STYLES)
def test_a_set_has_the_same_content_in_every_style(copy_eval_set: Callable[[str], Path], name: str) -> None:
    document = EvalSetDocument.open(copy_eval_set(name))

    assert document.format is DocumentFormat.CURRENT
    assert (document.eval_set_id, document.name, document.description) == ("kettle", "Kettle", None)
    assert [entry.eval_id for entry in document.entries] == ["boil", "boil_and_brew", "haggle"]
    brew = document.case(1).conversation[1]
    assert brew.user_content.text() == "Now brew tea 🫖, please — grüner Tee."
    assert isinstance(brew.intermediate_data, IntermediateData)
    assert brew.intermediate_data.tool_uses[0].args == {"tea": "green", "minutes": 2.5}
    assert document.case(2).conversation_scenario.user_persona == "NOVICE"


def test_comments_and_trailing_commas_are_accepted_but_not_strict(copy_eval_set: Callable[[str], Path]) -> None:
    document = EvalSetDocument.open(copy_eval_set("comments.evalset.json"))

    assert not document.is_strict
    assert [entry.eval_id for entry in document.entries] == ["boil", "nothing"]
    turn = document.case(0).conversation[0]
    assert turn.user_content.text() == "Boil // not a comment, # nor this"
    assert turn.intermediate_data.tool_uses[0].args["url"] == "http://kettle/*on*/"


@pytest.mark.parametrize("name", ["legacy_turns.test.json", "legacy_turns_inline.test.json"])
def test_a_list_of_turns_is_shown_as_one_migrated_case(copy_eval_set: Callable[[str], Path], name: str) -> None:
    document = EvalSetDocument.open(copy_eval_set(name))

    assert document.format is DocumentFormat.LEGACY_TURNS
    assert document.eval_set_id == document.entries[0].eval_id == name.removesuffix(".test.json")
    turn = document.case(0).conversation[0]
    assert (turn.user_content.role, turn.final_response.role) == ("user", "model")
    assert turn.intermediate_data.tool_uses[0].name == "switch"


def test_named_evals_are_shown_with_their_session(copy_eval_set: Callable[[str], Path]) -> None:
    document = EvalSetDocument.open(copy_eval_set("legacy_evals.evalset.json"))

    assert document.format is DocumentFormat.LEGACY_EVALS
    sessions = [document.case(index).session_input for index in range(len(document))]
    assert (sessions[0].app_name, sessions[0].state) == ("kitchen", {"floor": 1})
    assert sessions[1].state == {"floor": 2}
    assert sessions[2:] == [None, None]
    assert document.case(0).conversation[0].intermediate_data.intermediate_responses[0].author == "cook"


def test_a_broken_case_is_an_entry_with_its_position_and_others_are_read(copy_eval_set: Callable[[str], Path]) -> None:
    document = EvalSetDocument.open(copy_eval_set("broken_cases.evalset.json"))

    problems = {entry.eval_id: entry.problem for entry in document.entries}
    assert list(problems) == [
        "good", "both", "bad_bracket", "wrong_type", "(case 5)", "unclosed", "no_quote", "last",
    ]  # fmt: skip
    assert [name for name, problem in problems.items() if problem is None] == ["good", "last"]
    place = "eval_cases[3].conversation[0].user_content.parts[0].text"
    assert (problems["wrong_type"].line, problems["wrong_type"].column) == (7, 85)
    assert str(problems["wrong_type"]).endswith(f"broken_cases.evalset.json:7:85: {place}: found 5, expected a text")
    assert (problems["bad_bracket"].line, problems["bad_bracket"].found) == (6, "'}'")
    assert problems["unclosed"].line == 9
    assert document.case(7).eval_id == "last"
    with pytest.raises(StoreError, match="found both, expected exactly one of conversation"):
        document.case(1)


@pytest.mark.parametrize(
    ("content", "ids"),
    [
        ('{"eval_set_id": "s", "eval_cases": [\n {"eval_id": "a", "conversation": []},\n {"eval_id": "b", "conv', "ab"),
        ('{"eval_set_id": oops,\n"eval_cases": [\n {"eval_id": "a", "conversation": []}]}', "a"),
        ('{"eval_cases": [{"eval_id": "a", "conversation": []} {"eval_id": "b", "conversation": []}]}', "ab"),
        ('{"eval_cases": [{"eval_id": "a", "conversation": []}]', "a"),
    ],
)
def test_readable_cases_of_a_broken_file_are_listed_and_the_fault_is_reported(
    write_file: Callable[..., Path], content: str, ids: str
) -> None:
    path = write_file(content)

    document = EvalSetDocument.open(path)

    assert [entry.eval_id for entry in document.entries] == list(ids)
    assert [entry.problem for entry in document.entries if entry.problem] or document.problems
    assert document.content() == path.read_bytes()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", ":1:1: found the end of the file, expected an eval set"),
        ("hello", ":1:1: found 'hello', expected an eval set"),
        ('{"eval_cases": null}', ":1:16: found null as eval_cases, expected a list of cases"),
        ('\n {"criteria": {}}', ":2:2: found an eval config"),
        ('{"scenarios": []}', ":1:1: found conversation scenarios"),
        ('{"app_name": "a", "user_id": "u"}', ":1:1: found a session input"),
        ("[1]", ":1:1: found a list that begins with 1"),
        (b'{"a": "\xff"}', ":1:8: found the byte 0xff at offset 7, expected UTF-8 text"),
        ("é\n".encode() + b"\xc3", ":2:1: found the byte 0xc3 at offset 3"),
        ('{"eval_cases": []}'.encode("utf-16"), ": found UTF-16 text, expected UTF-8 text"),
        ("[" * 100_000, ":1:201: found a value nested deeper than 200 levels"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_file_that_is_not_an_eval_set_is_refused_with_its_content(
    write_file: Callable[..., Path], content: str | bytes, message: str
) -> None:
    with pytest.raises(StoreError) as caught:
        EvalSetDocument.open(write_file(content))

    assert message in str(caught.value)


@pytest.mark.parametrize("value", ["1e400", "-0", "-0.0", "5e-324", "1" * 40, "[NaN, 1.0, 1]", '{"a": 1, "a": 3}'])
def test_values_are_read_as_python_reads_json(write_file: Callable[..., Path], value: str) -> None:
    path = write_file(f'{{"eval_cases": [{{"eval_id": "c", "conversation": [], "x": {value}}}]}}')

    case = EvalSetDocument.open(path).case(0)

    assert repr(case.model_extra) == repr({"x": json.loads(value)})


def test_duplicate_ids_have_occurrences_and_are_reported(write_file: Callable[..., Path]) -> None:
    case = '{"eval_id": "a", "conversation": []}'
    document = EvalSetDocument.open(write_file(f'{{"eval_set_id": "s", "eval_cases": [{case},\n {case}]}}'))

    assert [(entry.eval_id, entry.occurrence) for entry in document.entries] == [("a", 0), ("a", 1)]
    assert [(problem.rule, problem.line) for problem in document.problems] == [("duplicate-id", 2)]


def test_a_missing_file_and_a_folder_are_clear_errors(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot read it: there is no such file"):
        EvalSetDocument.open(tmp_path / "none.json")
    with pytest.raises(StoreError, match="it is a folder, expected a file"):
        EvalSetDocument.open(tmp_path)


def test_cases_are_found_by_every_name_that_users_may_type(tmp_path: Path) -> None:
    ids = ["a", "b", "a", "a#2", "a", "c#1", "d#2"]
    cases = [{"eval_id": eval_id, "conversation": []} for eval_id in ids]
    path = tmp_path / "x.evalset.json"
    path.write_text(json.dumps({"eval_set_id": "x", "eval_cases": cases}), encoding="utf-8")
    document = EvalSetDocument.open(path)
    named = group_cases_by_name((entry.eval_id, entry.occurrence) for entry in document.entries)

    for name, expected in named.items():
        assert {(entry.eval_id, entry.occurrence) for entry in document.case_index.find(name)} == expected, name
    assert [entry.index for entry in document.case_index.find("a")] == [0, 2, 4]
    for unknown in ("", "#", "a#1", "a#4", "b#1", "b#2", "d"):
        assert not document.case_index.find(unknown), unknown

    document.remove_case(0)
    assert [entry.index for entry in document.case_index.find("a")] == [1, 3]
