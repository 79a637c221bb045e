"""Criteria in a configuration file: an edit changes only them, and can be undone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from workbench.model.criteria import Criterion, default_config
from workbench.store.errors import FileChanged, StoreError
from workbench.store.evalsets.config_files import ConfigDocument, load_config

COMMENTED = """\
{
  // who judges whom
  "customMetrics": {"mine": {"codeConfig": {"name": "a.b"}}},
  "criteria": {
    "tool_trajectory_avg_score": {"threshold": 1.0, "matchType": "IN_ORDER"}, # strict
    "response_match_score": "0.5",
    "mine": 1
  },
  "somebody else's": [1,2 ,3],
}
"""


def write_criteria(path: Path, *criteria: Criterion) -> ConfigDocument:
    document = ConfigDocument.open(path)
    document.write_criteria(criteria)
    return document


def read_criteria(path: Path) -> dict[str, Criterion]:
    return {criterion.metric: criterion for criterion in ConfigDocument.open(path).config.criteria}


@pytest.fixture
def commented_file(tmp_path: Path) -> Path:
    path = tmp_path / "test_config.json"
    path.write_text(COMMENTED)
    return path


def test_only_the_changed_criterion_is_rewritten(commented_file: Path) -> None:
    criteria = read_criteria(commented_file)
    changed = criteria["tool_trajectory_avg_score"].model_copy(update={"threshold": 0.9})

    write_criteria(commented_file, changed, criteria["response_match_score"], criteria["mine"])

    assert commented_file.read_text() == COMMENTED.replace('"threshold": 1.0', '"threshold": 0.9')


def test_added_criteria_come_last_and_removed_ones_leave_other_comments(
    commented_file: Path,
) -> None:
    criteria = read_criteria(commented_file)

    write_criteria(
        commented_file,
        criteria["tool_trajectory_avg_score"],
        criteria["mine"],
        Criterion(metric="exact_match", threshold=1.0, options={"ignore_case": True}),
    )

    text = commented_file.read_text()
    assert "# strict" in text and "// who judges whom" in text and "[1,2 ,3]" in text
    assert "response_match_score" not in text
    assert list(read_criteria(commented_file)) == ["tool_trajectory_avg_score", "mine", "exact_match"]
    assert load_config(commented_file).criteria[2].options == {"ignore_case": True}


def test_a_criterion_with_options_becomes_an_object_and_an_informational_one_null(
    commented_file: Path,
) -> None:
    stemmed = Criterion(metric="response_match_score", threshold=0.5, options={"x": 1})

    write_criteria(commented_file, stemmed, Criterion(metric="latency"))

    assert read_criteria(commented_file) == {"response_match_score": stemmed, "latency": Criterion(metric="latency")}
    assert '"latency": null' in commented_file.read_text()


def test_the_style_of_the_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_bytes(b'\xef\xbb\xbf{\r\n\t"criteria": {\r\n\t\t"exact_match": 1\r\n\t}\r\n}')

    write_criteria(path, Criterion(metric="exact_match", threshold=1), Criterion(metric="bleu", threshold=0.5))

    assert path.read_bytes() == (
        b'\xef\xbb\xbf{\r\n\t"criteria": {\r\n\t\t"exact_match": 1,\r\n\t\t"bleu": 0.5\r\n\t}\r\n}'
    )


@pytest.mark.parametrize("content", ["{}", '{"live_model_config": {}}'])
def test_a_file_without_criteria_gets_them(tmp_path: Path, content: str) -> None:
    path = tmp_path / "c.json"
    path.write_text(content)

    write_criteria(path, Criterion(metric="exact_match", threshold=1.0))

    assert json.loads(path.read_text()) == {**json.loads(content), "criteria": {"exact_match": 1.0}}


def test_a_missing_file_is_created_and_undo_removes_it(tmp_path: Path) -> None:
    path = tmp_path / "test_config.json"
    document = ConfigDocument.open(path)
    assert (document.exists, document.config) == (False, default_config())

    document.write_criteria([Criterion(metric="exact_match", threshold=1.0)])
    text = path.read_text()
    document.undo()

    assert text == '{\n  "criteria": {\n    "exact_match": 1.0\n  }\n}\n'
    assert not path.exists() and not document.exists


def test_undo_reverts_one_write_at_a_time(commented_file: Path) -> None:
    document = write_criteria(commented_file, Criterion(metric="exact_match", threshold=1.0))
    document.write_criteria([Criterion(metric="bleu", threshold=0.1)])

    document.undo()
    after_first_undo = [criterion.metric for criterion in document.config.criteria]
    document.undo()

    assert after_first_undo == ["exact_match"]
    assert commented_file.read_text() == COMMENTED
    assert not document.can_undo


def test_changes_by_other_programs_are_not_overwritten(commented_file: Path) -> None:
    document = ConfigDocument.open(commented_file)
    commented_file.write_text('{"criteria": {"bleu": 0.3}}')

    with pytest.raises(FileChanged):
        document.write_criteria([Criterion(metric="exact_match", threshold=1.0)])
    assert commented_file.read_text() == '{"criteria": {"bleu": 0.3}}'

    document.reload()
    document.write_criteria([Criterion(metric="exact_match", threshold=1.0)])
    commented_file.write_text("{}")
    with pytest.raises(FileChanged):
        document.undo()
    assert commented_file.read_text() == "{}"


def test_a_created_or_deleted_file_is_a_change_too(tmp_path: Path, commented_file: Path) -> None:
    appearing = ConfigDocument.open(tmp_path / "new.json")
    (tmp_path / "new.json").write_text("{}")
    vanishing = ConfigDocument.open(commented_file)
    commented_file.unlink()

    for document in (appearing, vanishing):
        with pytest.raises(FileChanged):
            document.write_criteria([Criterion(metric="exact_match", threshold=1.0)])


def test_an_invalid_file_is_refused_with_its_position(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text('{"criteria": {"exact_match": "high"}}')

    with pytest.raises(StoreError, match=r"c\.json:1:.*criteria\.exact_match"):
        ConfigDocument.open(path)


def test_a_write_cannot_be_undone_after_reloading_a_foreign_change(commented_file: Path) -> None:
    document = write_criteria(commented_file, Criterion(metric="exact_match", threshold=1.0))
    commented_file.write_text("{}")

    document.reload()

    assert not document.can_undo
