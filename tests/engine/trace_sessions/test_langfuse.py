"""Exports of Langfuse: documents of the model classes of its SDK (see `langfuse/make.py`), and tables of its screen."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from workbench.engine.session_import import SessionFilter, open_source
from workbench.store.datasets.adk_sessions import SourceSession

FIXTURES = sorted((Path(__file__).parent / "langfuse").glob("v*.json"))
DOCUMENTS: Mapping[str, Mapping[str, Any]] = {path.stem: json.loads(path.read_text()) for path in FIXTURES}

CALLS = [("set_light", {"on": True})]
WHOLE = ("s1", "ann", [("light on", CALLS, "It is on."), ("thanks", [], "You are welcome.")])
FIRST = ("s1", "ann", [("light on", CALLS, "It is on.")])
WITHOUT_CALLS = ("s1", "ann", [("light on", None, "It is on."), ("thanks", None, "You are welcome.")])
EXPECTED: Mapping[str, Sequence[Any]] = {
    "traces with details": [WHOLE],
    "one trace": [FIRST],
    "traces as dictionaries": [WHOLE],
    "traces of LangChain": [WHOLE],
    "page of traces": [WITHOUT_CALLS],  # with the ids of observations only
    "session": [WITHOUT_CALLS],
    "page of observations": [("t2", "", WHOLE[2]), ("t1", "", FIRST[2])],  # without users and sessions
    "page of observations v2": [WHOLE],
}


def read_sessions(path: Path) -> list[SourceSession]:
    source = open_source(path)
    assert source.kind == "traces of Langfuse"
    return [*source.find_sessions(SessionFilter())]


def describe(session: SourceSession) -> Any:
    turns = []
    for turn in session.turns:
        data = turn.intermediate_data
        calls = None if data is None else [(call.name, call.args) for call in data.tool_uses or ()]
        answer = turn.final_response
        turns.append((turn.user_content.text(), calls, None if answer is None else answer.text()))
    return session.id, session.user, turns


@pytest.mark.parametrize(
    ("version", "shape"),
    [(version, shape) for version, documents in DOCUMENTS.items() for shape in documents if shape != "made by"],
)
def test_documents_of_each_version_of_the_sdk_become_sessions(tmp_path: Path, version: str, shape: str) -> None:
    path = tmp_path / "export.json"
    path.write_text(json.dumps(DOCUMENTS[version][shape]))

    sessions = read_sessions(path)

    assert [describe(each) for each in sessions] == EXPECTED[shape]
    assert all(each.app == "home" and each.began is not None for each in sessions)


def test_traces_of_a_session_with_python_names_belong_to_it(tmp_path: Path) -> None:
    trace = {"id": "t1", "timestamp": "2026-03-01 10:00:00+00:00", "session_id": None, "input": "hi", "output": "ho"}
    path = tmp_path / "session.json"
    path.write_text(json.dumps([{"id": "s1", "traces": [trace, {**trace, "id": "t2", "input": "bye"}]}]))

    assert [describe(each)[0] for each in read_sessions(path)] == ["s1"]


ROW: Mapping[str, Any] = {
    "id": "t1", "timestamp": "2026-03-01T10:01:00.120Z", "name": "home", "userId": None, "sessionId": None,
    "release": None, "version": None, "environment": "default", "tags": ["a"], "bookmarked": False, "public": False,
    "input": {"messages": [{"role": "user", "content": "light on"}]},
    "output": {"role": "assistant", "content": "It is on."}, "metadata": {}, "latency": 1.5, "level": "DEFAULT",
    "errorCount": "0", "observationCount": 4, "scores": {},
}  # fmt: skip
"""A row of the table of traces, with the fields that Langfuse exports (`worker/src/features/database-read-stream`)."""


@pytest.mark.parametrize("suffix", ["json", "jsonl", "csv"])
def test_the_table_of_traces_is_read_in_all_its_formats(tmp_path: Path, suffix: str) -> None:
    rows = [ROW, {**ROW, "id": "t2", "sessionId": "s1", "userId": "ann"}]
    path = tmp_path / f"traces.{suffix}"
    if suffix == "csv":
        with path.open("w", newline="") as file:
            writer = csv.writer(file, quoting=csv.QUOTE_ALL)
            writer.writerow(ROW)
            for row in rows:
                texts = ["" if value is None else value for value in row.values()]
                writer.writerow([text if isinstance(text, str) else json.dumps(text) for text in texts])
    else:
        lines = [json.dumps(row) for row in rows]
        path.write_text("\n".join(lines) if suffix == "jsonl" else f"[{','.join(lines)}]")

    sessions = {each.id: describe(each)[1:] for each in read_sessions(path)}

    assert sessions == {
        "t1": ("", [("light on", None, "It is on.")]),
        "s1": ("ann", [("light on", None, "It is on.")]),
    }
