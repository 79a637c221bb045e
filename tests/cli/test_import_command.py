"""`workbench import`: list, show and keep sessions of production."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.store.datasets.adk_stores import event, text, write_store

if TYPE_CHECKING:
    from tests.cli.command_line import CommandLine

KEY = "AIzaSyAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"


def make_stores(workbench: CommandLine) -> None:
    write_store(workbench.root / "a.db", "v1")
    said = [event("user", text(f"my key is {KEY} \x1b[31m")), event("home", text("[b]ok"))]
    write_store(workbench.root / "b.db", "service", said, session="s2", user="bob")
    write_store(workbench.root / "b.db", "service", [event("home", text("hello?"))], session="s3")


def test_list(workbench: CommandLine) -> None:
    make_stores(workbench)

    done = workbench("import", "a.db", "b.db")

    assert done.status == 0
    head, *rows = done.out.splitlines()
    assert head.split() == ["id", "user", "when", "turns", "tools", "first", "message"]
    assert [row.split()[:2] for row in rows] == [["s3", "ann"], ["s2", "bob"], ["s1", "ann"]]
    assert "(has no message of a user)" in rows[0]
    assert rows[1].endswith("my key is [redacted] ␛[31m")
    assert rows[2].endswith("2      set_light, find  turn on the light")
    assert done.error == "workbench: 3 sessions: session store of ADK\n"


def test_list_as_json(workbench: CommandLine) -> None:
    make_stores(workbench)

    done = workbench("import", "a.db", "b.db", "--user", "ann", "--format", "json")

    assert done.data["schema_version"] == 1
    assert done.data["sources"][0] == {"path": "a.db", "kind": "session store of ADK", "notes": []}
    second, first = done.data["sessions"]
    assert {key: first[key] for key in ("id", "app", "user", "turns", "tools", "first_message", "problem")} == {
        "id": "s1",
        "app": "home",
        "user": "ann",
        "turns": 2,
        "tools": ["set_light", "find"],
        "first_message": "turn on the light",
        "problem": None,
    }
    assert second["problem"] == "has no message of a user"


def test_show(workbench: CommandLine) -> None:
    make_stores(workbench)

    done = workbench("import", "b.db", "--show", "s2")

    assert done.out.splitlines()[1:] == [
        "turn 1",
        "user      my key is [redacted] ␛[31m",
        "response  [b]ok",
        'state     {"room": "kitchen"}',
        "redacted  secret (turn 1, message)",
    ]
    shown = workbench("import", "b.db", "--show", "s2", "--format", "json").data
    assert shown["session"]["id"] == "s2"
    assert shown["case"]["conversation"][0]["final_response"]["parts"] == [{"text": "[b]ok"}]
    assert shown["redactions"] == [{"place": "turn 1, message", "pattern": None, "times": 1}]


def test_keep(workbench: CommandLine) -> None:
    make_stores(workbench)

    done = workbench("import", "a.db", "b.db", "--into", "home/prod.evalset.json", "--redact", "kitchen")

    assert done.status == 0
    assert done.out.splitlines() == [
        "added s2: 1 turn",
        "  redacted: secret (turn 1, message), /kitchen/ (state)",
        "added s1: 2 turns",
        "  note: state that the session set is left out, its value at the start is unknown: on",
        "  redacted: /kitchen/ (state)",
        "s3: skipped, has no message of a user",
        "2 cases added to home/prod.evalset.json",
    ]
    cases = json.loads((workbench.root / "home/prod.evalset.json").read_text())["eval_cases"]
    assert [case["eval_id"] for case in cases] == ["s2", "s1"]
    assert cases[1]["session_input"]["state"] == {"room": "[redacted]", "language": "en"}


def test_a_session_that_is_imported_again_is_skipped(workbench: CommandLine) -> None:
    make_stores(workbench)
    workbench("import", "a.db", "--into", "home/prod.evalset.json")
    before = (workbench.root / "home/prod.evalset.json").read_bytes()

    done = workbench("import", "a.db", "--into", "home/prod.evalset.json")

    assert done.status == 0
    assert done.out == "s1: skipped, home/prod.evalset.json already has it\n"
    assert (workbench.root / "home/prod.evalset.json").read_bytes() == before
    again = workbench("import", "a.db", "b.db", "--into", "home/prod.evalset.json", "--format", "json").data
    assert again["eval_set"] == "home/prod.evalset.json"
    found = [(each["id"], each["eval_id"], each["status"]) for each in again["sessions"]]
    assert found == [("s3", None, "refused"), ("s2", "s2", "added"), ("s1", "s1", "present")]


def test_list_with_a_target_keeps_nothing(workbench: CommandLine) -> None:
    make_stores(workbench)

    done = workbench("import", "a.db", "--into", "home/prod.evalset.json", "--list")

    assert done.status == 0
    assert not (workbench.root / "home/prod.evalset.json").exists()


def test_imported_cases_run(workbench: CommandLine) -> None:
    messages = [{"role": "user", "content": "light hall"}, {"role": "assistant", "content": "done: hall"}]
    workbench.write("chat.json", messages)
    workbench.write("home/test_config.json", {"criteria": {"response_match_score": 1.0}})

    workbench("import", "chat.json", "--into", "home/prod.evalset.json")
    done = workbench("run", "home/prod.evalset.json", "--plain")

    assert done.status == 0, done.out + done.error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["import", "none.db"], "none.db: cannot read it: there is no such file or folder"),
        (["import", "a.db", "--session", "s9"], "--session s9: no such session; did you mean 's1'?"),
        (["import", "a.db", "--show", "s9"], "--session s9: no such session; did you mean 's1'?"),
        (["import", "a.db", "--contains", "zebra"], "no session matches"),
        (["import", "a.db", "--contains", "zebra", "--into", "x.evalset.json"], "no session matches; nothing was"),
        (["import", "a.db", "--since", "soon"], "found 'soon', expected a date"),
        (["import", "a.db", "--redact", "("], "found '(', expected a regular expression"),
        (["import", "a.db", "--into", "x.txt"], "x.txt: found no such file, expected an eval set"),
        (["import", "b.db", "--session", "s3", "--into", "x.evalset.json"], ""),
        (["import", "home/agent.py"], "found a file that is neither JSON nor SQLite, expected a session store"),
    ],
)
def test_wrong_use_changes_nothing(workbench: CommandLine, arguments: list[Any], message: str) -> None:
    make_stores(workbench)
    before = sorted(path.name for path in workbench.root.rglob("*"))

    done = workbench(*arguments)

    assert done.status == 2
    assert message in done.error
    assert "Traceback" not in done.error
    assert [name for name in sorted(path.name for path in workbench.root.rglob("*")) if name not in before] == []


def test_a_line_that_is_being_written_is_named(workbench: CommandLine) -> None:
    workbench.write("chat.jsonl", json.dumps({"messages": [{"role": "user", "content": "hi"}]}) + '\n{"messages": [{')

    done = workbench("import", "chat.jsonl")

    assert done.status == 0
    assert "chat.jsonl: line 2 is left out: it is not complete" in done.error
