"""Quarantined cases in the file beside their eval set."""

from __future__ import annotations

import json
import os
from datetime import date
from pathlib import Path

import pytest

from workbench.model.evalset import Quarantine
from workbench.store.errors import StoreError
from workbench.store.evalsets import quarantine as quarantines
from workbench.store.evalsets.quarantine import (
    read_project_quarantines,
    read_quarantines,
    release_cases,
    set_quarantine,
)
from workbench.store.evalsets.validation import validate
from workbench.store.files import Stamp, get_sidecar_path, is_eval_set, write_atomic

DAY = date(2026, 12, 24)
Q = Quarantine(until=DAY, reason="the model guesses")


@pytest.fixture
def eval_set(tmp_path: Path) -> Path:
    path = tmp_path / "home.evalset.json"
    path.write_text('{"eval_set_id": "home", "eval_cases": []}')
    return path


def test_a_quarantine_is_read_back_and_the_eval_set_stays_as_it_is(eval_set: Path) -> None:
    before = eval_set.read_bytes()

    set_quarantine(eval_set, ["a", "b#2"], Q)

    assert read_quarantines(eval_set) == ({"a": Q, "b#2": Q}, [], {})
    assert eval_set.read_bytes() == before
    assert get_sidecar_path(eval_set).name == "home.evalset.workbench.json"
    assert not is_eval_set(get_sidecar_path(eval_set))


@pytest.mark.parametrize("name", ["evalId", "eval_id", "quarantine", "a.b[0]", 'say "hi"', "灯", "until"])
def test_any_name_of_a_case_is_a_key(eval_set: Path, name: str) -> None:
    set_quarantine(eval_set, ["camelCase"], Q)

    set_quarantine(eval_set, [name], Q)

    assert read_quarantines(eval_set).cases == {"camelCase": Q, name: Q}
    assert release_cases(eval_set, [name]) == [name]
    assert read_quarantines(eval_set).cases == {"camelCase": Q}


def test_unknown_content_and_comments_stay(eval_set: Path) -> None:
    text = """{
    // of another program
    "colour": {"a": "#fff"},
    "quarantine": {"old": {"until": "2026-12-01", "ticket": 7, "reason": "before"}},  // mine
}
"""
    get_sidecar_path(eval_set).write_text(text)

    set_quarantine(eval_set, ["old"], Quarantine(until=DAY))

    assert get_sidecar_path(eval_set).read_text() == text.replace(
        '{"until": "2026-12-01", "ticket": 7, "reason": "before"}', '{"until": "2026-12-24", "ticket": 7}'
    )


def test_a_release_says_which_cases_were_in_quarantine(eval_set: Path) -> None:
    assert release_cases(eval_set, ["a"]) == []
    assert not get_sidecar_path(eval_set).exists()
    set_quarantine(eval_set, ["a"], Q)

    assert release_cases(eval_set, ["a", "b"]) == ["a"]
    assert read_quarantines(eval_set).cases == {}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "expected"),
        ("{", "expected"),
        ("[]", "found a list, expected an object"),
        ('{"quarantine": []}', "found quarantine: a list, expected an object with the names of cases"),
        ('{"quarantine": {"a": {"until": "2999-01-01"}}, "quarantine": {}}', "twice"),
        (
            '{"quarantines": {"a": {"until": "2999-01-01"}}}',
            "found the unknown key 'quarantines', expected 'quarantine'",
        ),
    ],
)
def test_a_damaged_file_is_one_message_and_no_quarantine(eval_set: Path, content: str, message: str) -> None:
    get_sidecar_path(eval_set).write_text(content)

    found = read_quarantines(eval_set)

    assert found.cases == {}
    assert len(found.problems) == 1
    assert message in str(found.problems[0])
    assert str(found.problems[0]).endswith("none of its cases is in quarantine")
    with pytest.raises(StoreError):
        set_quarantine(eval_set, ["b"], Q)
    assert get_sidecar_path(eval_set).read_text() == content


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ('"2999-01-01"', "found text, expected an object"),
        ("{}", "found no 'until'"),
        ('{"untill": "2999-01-01"}', "found the unknown key 'untill'"),
        ('{"until": "2999-02-30"}', 'found "2999-02-30"'),
        ('{"until": "29990101"}', 'found "29990101"'),
        ('{"until": null}', "found null"),
        ('{"until": 2999}', "found 2999"),
        ('{"until": "2999-01-01", "reason": 1}', "found a number, expected text"),
    ],
)
def test_a_wrong_entry_is_one_message_and_no_quarantine(eval_set: Path, entry: str, message: str) -> None:
    get_sidecar_path(eval_set).write_text(f'{{"quarantine": {{"a": {entry}, "b": {{"until": "2026-12-24"}}}}}}')

    found = read_quarantines(eval_set)

    assert found.cases == {"b": Quarantine(until=DAY)}
    assert len(found.problems) == 1
    assert message in str(found.problems[0])
    assert "home.evalset.workbench.json:1:" in str(found.problems[0])
    assert str(found.problems[0]).endswith("this is no quarantine")


def test_a_repeated_key_has_its_place(eval_set: Path) -> None:
    text = '{"quarantine": {\n  "a": {"until": "2999-01-01"},\n  "a": {"until": "2999-01-02"}\n}}'
    get_sidecar_path(eval_set).write_text(text)

    found = read_quarantines(eval_set)

    assert found.cases == {}
    assert "home.evalset.workbench.json:1:" not in str(found.problems[0])


def test_a_change_by_another_program_meanwhile_is_not_lost(eval_set: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_quarantine(eval_set, ["a"], Q)
    path = get_sidecar_path(eval_set)
    others = ["b"]

    def write_late(written: Path, data: bytes, *, expect: Stamp) -> Stamp:
        if others:
            found = json.loads(path.read_text())
            found["quarantine"][others.pop()] = {"until": "2026-12-24"}
            path.write_text(json.dumps(found))
        return write_atomic(written, data, expect=expect)

    monkeypatch.setattr(quarantines, "write_atomic", write_late)
    set_quarantine(eval_set, ["c"], Q)

    assert read_quarantines(eval_set).cases.keys() == {"a", "b", "c"}


def test_the_last_day_belongs_to_the_quarantine() -> None:
    assert not Q.at_day(DAY).is_expired
    assert Q.at_day(date(2026, 12, 25)).is_expired
    assert str(Q.at_day(DAY)) == "quarantined until 2026-12-24: the model guesses"
    assert "ended on 2026-12-24" in str(Q.at_day(date(2027, 1, 1)))


def test_the_quarantines_of_a_project_are_those_of_today(eval_set: Path) -> None:
    set_quarantine(eval_set, ["a"], Quarantine(until=date(2020, 1, 1)))
    (eval_set.parent / "other.evalset.workbench.json").write_text("{")

    found = read_project_quarantines(eval_set.parent, ["home.evalset.json", "other.evalset.json"])

    assert found["home.evalset.json"].cases["a"].is_expired
    assert len(found["other.evalset.json"].problems) == 1


@pytest.mark.parametrize("name", ["twice", "twice#2"])
def test_a_name_that_several_cases_share_is_no_quarantine(eval_set: Path, name: str) -> None:
    set_quarantine(eval_set, ["once", name], Q)
    cases: list[dict[str, object]] = [{"eval_id": each, "conversation": []} for each in ("twice", "once", "twice")]
    eval_set.write_text(json.dumps({"eval_set_id": "home", "eval_cases": cases}))

    found = read_quarantines(eval_set)

    assert found.cases == {"once": Q}
    assert len(found.problems) == 1
    assert "one of several cases with the same id" in str(found.problems[0])
    assert str(found.problems[0]).endswith("this is no quarantine")
    with pytest.raises(StoreError, match="several cases"):
        set_quarantine(eval_set, [name], Q)


def test_a_row_of_a_dataset_needs_an_id(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"prompt": "a", "response": "b"}\n')
    set_quarantine(rows, ["own"], Q)
    with pytest.raises(StoreError, match="the number of a row"):
        set_quarantine(rows, ["row_2"], Q)
    entries = {name: {"until": "2999-01-01"} for name in ("own", "row_2", "own#2")}
    get_sidecar_path(rows).write_text(json.dumps({"quarantine": entries}))

    found = read_quarantines(rows)

    assert [*found.cases] == ["own"]
    assert len(found.problems) == 2


def test_an_id_of_an_eval_set_may_look_like_the_number_of_a_row(eval_set: Path) -> None:
    case = {"eval_id": "row_2", "conversation": []}
    eval_set.write_text(json.dumps({"eval_set_id": "home", "eval_cases": [case]}))
    set_quarantine(eval_set, ["row_2"], Q)

    assert read_quarantines(eval_set) == ({"row_2": Q}, [], {})


def test_a_pipe_is_one_message_and_is_not_read(eval_set: Path) -> None:
    os.mkfifo(get_sidecar_path(eval_set))

    found = read_quarantines(eval_set)

    assert found.cases == {}
    assert "found a pipe" in str(found.problems[0])
    with pytest.raises(StoreError, match="found a pipe"):
        set_quarantine(eval_set, ["a"], Q)


def write_cases(eval_set: Path, **said: str) -> None:
    cases = [
        {"eval_id": name, "conversation": [{"user_content": {"role": "user", "parts": [{"text": text}]}}]}
        for name, text in said.items()
    ]
    eval_set.write_text(json.dumps({"eval_set_id": "home", "eval_cases": cases}))


def test_a_new_case_with_the_id_of_a_deleted_one_is_not_in_quarantine(eval_set: Path) -> None:
    write_cases(eval_set, a="light on", b="light off")
    set_quarantine(eval_set, ["a", "b"], Q)

    write_cases(eval_set, a="open the door", b="light off")

    found = read_quarantines(eval_set)
    assert (found.cases, found.problems, found.changed) == ({"b": Q}, [], {"a": Q})
    write_cases(eval_set, a="light on", b="light off")  # as undo does
    assert read_quarantines(eval_set).cases == {"a": Q, "b": Q}
    write_cases(eval_set, a="open the door")
    set_quarantine(eval_set, ["a"], Q)
    assert read_quarantines(eval_set).cases["a"] == Q


def test_expectations_and_formatting_do_not_end_a_quarantine(eval_set: Path) -> None:
    picture = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    turn = {"userContent": {"role": "user", "parts": [{"text": "light on"}, picture]}}
    eval_set.write_text(json.dumps({"evalSetId": "home", "evalCases": [{"evalId": "a", "conversation": [turn]}]}))
    set_quarantine(eval_set, ["a"], Q)

    same = {"inline_data": {"data": "AAAA", "mime_type": "image/png"}}
    turn = {
        "user_content": {"parts": [{"text": "light on"}, same]},
        "final_response": {"role": "model", "parts": [{"text": "done"}]},
    }
    content = {"eval_set_id": "home", "eval_cases": [{"eval_id": "a", "conversation": [turn], "session_input": None}]}
    eval_set.write_text(json.dumps(content, indent=2))

    assert read_quarantines(eval_set).cases == {"a": Q}


def test_entries_of_cases_that_the_set_does_not_have_are_warnings_with_their_line(eval_set: Path) -> None:
    write_cases(eval_set, a="light on", b="light off", gone="?")
    set_quarantine(eval_set, ["a", "b", "gone"], Q)
    write_cases(eval_set, a="open the door", b="light off")

    found = validate([eval_set])

    assert {(each.rule, each.severity) for each in found} == {("stale-quarantine", "warning")}
    assert [(each.path, each.line) for each in found] == [(get_sidecar_path(eval_set), line) for line in (3, 13)]
    assert "the user says something else in this case" in found[0].message
    assert "the set has no such case" in found[1].message


def test_a_file_without_its_set_is_a_warning(eval_set: Path) -> None:
    set_quarantine(eval_set, ["a"], Q)
    other = eval_set.with_name("other.evalset.json")
    eval_set.rename(other)
    (eval_set.parent / "colours.workbench.json").write_text('{"colour": "red"}')  # of another program
    rows = eval_set.parent / "rows.jsonl"
    rows.write_text("{}")
    get_sidecar_path(rows).write_text(get_sidecar_path(eval_set).read_text())

    (found,) = validate([other])

    assert (found.path, found.severity) == (get_sidecar_path(eval_set), "warning")
    assert found.message.startswith("home.evalset.json does not exist, so that these quarantines have no effect: a;")
