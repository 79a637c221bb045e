"""Eval sets of other projects, if available, and our own: each loads, survives an edit, and migrates."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from workbench.store.evalsets.case_frame import DocumentFormat
from workbench.store.evalsets.config_files import load_config, read_json
from workbench.store.evalsets.evalset_document import EvalSetDocument
from workbench.store.evalsets.new_evalsets import migrate, read_scenarios, read_session_input
from workbench.store.evalsets.validation import validate

ROOT = Path(__file__).parent.parent.parent.parent.parent
OWN = ROOT / "tests" / "fixtures" / "evalsets"
CORPUS = ROOT.parent / "shared" / "corpus"
FILES = [
    path
    for folder in (OWN, CORPUS / "new", CORPUS / "legacy", CORPUS / "documentation")
    for path in sorted(folder.glob("*.json"))
]
SETS = [path for path in FILES if path.name.endswith((".evalset.json", ".test.json"))]


def _format_id(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


@pytest.mark.parametrize("path", SETS, ids=_format_id)
def test_every_set_lists_its_cases_and_reads_the_valid_ones(path: Path) -> None:
    document = EvalSetDocument.open(path)

    assert document.entries
    assert document.content() == path.read_bytes()
    for entry in document.entries:
        if entry.problem is None:
            assert document.case(entry.index).eval_id == entry.eval_id


@pytest.mark.parametrize("path", SETS, ids=_format_id)
def test_editing_any_text_of_a_case_leaves_all_other_bytes_unchanged(path: Path) -> None:
    document = EvalSetDocument.open(path)
    old = path.read_bytes()
    for entry in document.entries:
        if entry.problem is not None:
            continue
        start = old.index(document.case_text(entry.index).encode())
        for place, text in _find_texts(document.raw_case(entry.index)):
            document.set_value(place, f"{text} <edited>", case=entry.index)
            new = document.content()
            document.undo()

            assert document.content() == old
            added = len(" <edited>")
            edited = new.index(b" <edited>", start)
            assert new[:edited] + new[edited + added :] == old


@pytest.mark.parametrize("path", [path for path in SETS if path.parent != OWN], ids=_format_id)
def test_sets_of_other_projects_are_valid_for_adk(path: Path) -> None:
    assert [str(problem) for problem in validate([path]) if problem.severity == "error"] == []


@pytest.mark.parametrize("path", [path for path in SETS if "legacy" in _format_id(path)], ids=_format_id)
def test_legacy_sets_migrate_to_the_cases_that_are_shown(path: Path, tmp_path: Path) -> None:
    new = tmp_path / f"new_{path.name}"

    migrate(path, new)

    old, migrated = EvalSetDocument.open(path), EvalSetDocument.open(new)
    assert migrated.format is DocumentFormat.CURRENT
    assert "/" not in migrated.eval_set_id
    assert [_dump_content(old.case(index)) for index in range(len(old))] == [
        _dump_content(migrated.case(index)) for index in range(len(migrated))
    ]
    assert validate([new], strict=True) == []


@pytest.mark.parametrize("path", [path for path in FILES if path not in SETS], ids=_format_id)
def test_every_other_file_is_read_by_the_reader_of_its_kind(path: Path, tmp_path: Path) -> None:
    data = read_json(path).data
    if "criteria" in data:
        assert load_config(path).criteria
    elif "app_name" in data:
        assert read_session_input(path)["user_id"]
    else:
        assert all(scenario.eval_id for scenario in read_scenarios(path))
    copy = Path(shutil.copy(path, tmp_path))
    assert [str(problem) for problem in validate([copy]) if problem.severity == "error"] == []


def _find_texts(data: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(data, str):
        yield place, data
    for key, value in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        yield from _find_texts(value, (*place, key))


def _dump_content(case: Any) -> str:
    """Return the content of a case without the ids and times that migration adds."""
    added = {"invocation_id", "creation_timestamp"}
    data = case.model_dump(exclude={**dict.fromkeys(added, True), "conversation": {"__all__": added}})
    return json.dumps(data, sort_keys=True)
