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


def keep(path: Path, *criteria: Criterion) -> ConfigDocument:
    document = ConfigDocument.open(path)
    document.write_criteria(criteria)
    return document


def criteria_of(path: Path) -> dict[str, Criterion]:
    return {criterion.metric: criterion for criterion in ConfigDocument.open(path).config.criteria}


@pytest.fixture
def commented(tmp_path: Path) -> Path:
    path = tmp_path / "test_config.json"
    path.write_text(COMMENTED)
    return path


def test_only_the_criterion_that_changed_is_touched(commented: Path) -> None:
    criteria = criteria_of(commented)
    changed = criteria["tool_trajectory_avg_score"].model_copy(update={"threshold": 0.9})

    keep(commented, changed, criteria["response_match_score"], criteria["mine"])

    assert commented.read_text() == COMMENTED.replace('"threshold": 1.0', '"threshold": 0.9')


def test_a_criterion_that_is_added_follows_the_others_and_one_that_is_dropped_leaves_their_comments(
    commented: Path,
) -> None:
    criteria = criteria_of(commented)

    keep(
        commented,
        criteria["tool_trajectory_avg_score"],
        criteria["mine"],
        Criterion(metric="exact_match", threshold=1.0, options={"ignore_case": True}),
    )

    text = commented.read_text()
    assert "# strict" in text and "// who judges whom" in text and "[1,2 ,3]" in text
    assert "response_match_score" not in text
    assert list(criteria_of(commented)) == ["tool_trajectory_avg_score", "mine", "exact_match"]
    assert load_config(commented).criteria[2].options == {"ignore_case": True}


def test_an_option_turns_a_number_into_an_object_and_an_informational_criterion_has_no_threshold(
    commented: Path,
) -> None:
    stemmed = Criterion(metric="response_match_score", threshold=0.5, options={"x": 1})

    keep(commented, stemmed, Criterion(metric="latency"))

    assert criteria_of(commented) == {"response_match_score": stemmed, "latency": Criterion(metric="latency")}
    assert '"latency": null' in commented.read_text()


def test_the_manner_of_the_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_bytes(b'\xef\xbb\xbf{\r\n\t"criteria": {\r\n\t\t"exact_match": 1\r\n\t}\r\n}')

    keep(path, Criterion(metric="exact_match", threshold=1), Criterion(metric="bleu", threshold=0.5))

    assert path.read_bytes() == (
        b'\xef\xbb\xbf{\r\n\t"criteria": {\r\n\t\t"exact_match": 1,\r\n\t\t"bleu": 0.5\r\n\t}\r\n}'
    )


@pytest.mark.parametrize("content", ["{}", '{"live_model_config": {}}'])
def test_a_file_without_criteria_gets_them(tmp_path: Path, content: str) -> None:
    path = tmp_path / "c.json"
    path.write_text(content)

    keep(path, Criterion(metric="exact_match", threshold=1.0))

    assert json.loads(path.read_text()) == {**json.loads(content), "criteria": {"exact_match": 1.0}}


def test_where_there_is_no_file_one_is_made_and_undo_removes_it(tmp_path: Path) -> None:
    path = tmp_path / "test_config.json"
    document = ConfigDocument.open(path)
    assert (document.exists, document.config) == (False, default_config())

    document.write_criteria([Criterion(metric="exact_match", threshold=1.0)])
    made = path.read_text()
    document.undo()

    assert made == '{\n  "criteria": {\n    "exact_match": 1.0\n  }\n}\n'
    assert not path.exists() and not document.exists


def test_undo_goes_back_write_by_write(commented: Path) -> None:
    document = keep(commented, Criterion(metric="exact_match", threshold=1.0))
    document.write_criteria([Criterion(metric="bleu", threshold=0.1)])

    document.undo()
    once = [criterion.metric for criterion in document.config.criteria]
    document.undo()

    assert once == ["exact_match"]
    assert commented.read_text() == COMMENTED
    assert not document.can_undo


def test_what_others_wrote_meanwhile_is_not_overwritten(commented: Path) -> None:
    document = ConfigDocument.open(commented)
    commented.write_text('{"criteria": {"bleu": 0.3}}')

    with pytest.raises(FileChanged):
        document.write_criteria([Criterion(metric="exact_match", threshold=1.0)])
    assert commented.read_text() == '{"criteria": {"bleu": 0.3}}'

    document.reload()
    document.write_criteria([Criterion(metric="exact_match", threshold=1.0)])
    commented.write_text("{}")
    with pytest.raises(FileChanged):
        document.undo()
    assert commented.read_text() == "{}"


def test_a_file_that_appears_or_vanishes_meanwhile_is_a_change_too(tmp_path: Path, commented: Path) -> None:
    appearing = ConfigDocument.open(tmp_path / "new.json")
    (tmp_path / "new.json").write_text("{}")
    vanishing = ConfigDocument.open(commented)
    commented.unlink()

    for document in (appearing, vanishing):
        with pytest.raises(FileChanged):
            document.write_criteria([Criterion(metric="exact_match", threshold=1.0)])


def test_a_file_that_cannot_be_used_is_refused_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text('{"criteria": {"exact_match": "high"}}')

    with pytest.raises(StoreError, match=r"c\.json:1:.*criteria\.exact_match"):
        ConfigDocument.open(path)


def test_a_written_file_that_another_edits_can_no_longer_be_undone_after_reading_it_again(commented: Path) -> None:
    document = keep(commented, Criterion(metric="exact_match", threshold=1.0))
    commented.write_text("{}")

    document.reload()

    assert not document.can_undo
