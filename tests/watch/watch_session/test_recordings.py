"""Watch mode with recordings: rows and sessions are scored, and no agent runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.watch.watched import Folder, turn, watch_project
from workbench.model.run_events import Notice
from workbench.watch.watch_events import AllKnown

SETTINGS = '[targets.rows]\nkind = "recorded"\neval_sets = ["*.jsonl"]\n'
METRIC = """
def exact(instance):
    return {"score": float(instance["response"] == instance["reference"])}
"""


class Rows(Folder):
    """A folder with the dataset `rows.jsonl`, judged by `exact_match`."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.write("workbench.toml", SETTINGS)
        self.rows(a=("yes", "yes"), b=("no", "yes"), twin=("yes", "other"))

    def rows(self, *, name: str = "rows", **rows: tuple[str, str]) -> None:
        """Write the dataset. Each row has a response and a reference."""
        row_data = [
            {"eval_id": eval_id, "prompt": "?", "response": response, "reference": reference}
            for eval_id, (response, reference) in rows.items()
        ]
        self.write(f"{name}.jsonl", "".join(json.dumps(row) + "\n" for row in row_data))


@pytest.fixture
def folder(tmp_path: Path) -> Rows:
    return Rows(tmp_path)


async def test_only_an_edited_row_is_judged_again(folder: Rows) -> None:
    async with watch_project(folder.root) as watch:
        start = await watch.wait_until_quiet()
        assert start.verdicts == {"a": "PASSED", "b": "FAILED", "twin": "FAILED"}
        assert start.first(AllKnown).stale == 0

        edit = await watch.apply(lambda: folder.rows(a=("yes", "yes"), b=("yes", "yes"), twin=("yes", "other")))
        assert edit.verdicts == {"b": "PASSED"}
        assert (edit.change.run, edit.change.judged, edit.change.reason) == (0, 1, "the case changed")

        other_edit = await watch.apply(lambda: folder.rows(a=("yes", "yes"), b=("yes", "no"), twin=("yes", "other")))
        assert other_edit.verdicts == {"b": "FAILED"}

        unrelated = await watch.apply(lambda: folder.write("notes.txt", "x"))
        assert unrelated.verdicts == unrelated.stored_verdicts == {}


async def test_verdicts_of_rows_hold_in_later_sessions_and_after_rows_move(folder: Rows) -> None:
    twins: dict[str, Any] = {f"twin_{number}": ("yes", f"other {number}") for number in range(30)}
    folder.rows(**twins)
    async with watch_project(folder.root) as watch:
        assert len((await watch.wait_until_quiet()).verdicts) == 30

    async with watch_project(folder.root) as watch:
        start = await watch.wait_until_quiet()
        assert (start.verdicts, len(start.stored_verdicts), start.first(AllKnown).stale) == ({}, 30, 0)

        moved = await watch.apply(lambda: folder.rows(new=("new", "new"), **twins))
        assert moved.verdicts == {"new": "PASSED"}


async def test_changed_criteria_and_metric_code_judge_rows_again(folder: Rows) -> None:
    folder.write("metrics.py", METRIC)
    custom = {"exact": {"code_config": {"name": "metrics.exact"}}}
    folder.write("test_config.json", json.dumps({"criteria": {"exact": 1.0}, "custom_metrics": custom}))
    async with watch_project(folder.root, catches_up=False) as watch:
        await watch.wait_until_quiet()
        lower = json.dumps({"criteria": {"exact": 0.5}, "custom_metrics": custom})
        criteria = await watch.apply(lambda: folder.write("test_config.json", lower))
        assert criteria.verdicts == {"a": "PASSED", "b": "FAILED", "twin": "FAILED"}

        code = await watch.apply(lambda: folder.write("metrics.py", METRIC.replace("==", "!=")))
        assert code.verdicts == {"a": "FAILED", "b": "PASSED", "twin": "PASSED"}
        assert code.change.reason == "metrics.py: exact() changed"

        restored = await watch.apply(lambda: folder.write("metrics.py", METRIC))
        assert (restored.verdicts, restored.stored_verdicts) == ({}, {"a": "PASSED", "b": "FAILED", "twin": "FAILED"})


async def test_an_edited_metric_rescores_verdicts_from_before_the_watch(folder: Rows) -> None:
    folder.write("metrics.py", METRIC)
    custom = {"exact": {"code_config": {"name": "metrics.exact"}}}
    folder.write("test_config.json", json.dumps({"criteria": {"exact": 1.0}, "custom_metrics": custom}))
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()

    async with watch_project(folder.root, catches_up=False) as watch:
        assert (await watch.wait_until_quiet()).first(AllKnown).stale == 0
        code = await watch.apply(lambda: folder.write("metrics.py", METRIC.replace("==", "!=")))
        assert code.verdicts == {"a": "FAILED", "b": "PASSED", "twin": "PASSED"}


async def test_a_half_written_dataset_keeps_its_rows_and_a_new_dataset_is_found(folder: Rows) -> None:
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()
        complete_text = (folder.root / "rows.jsonl").read_text()

        broken = await watch.apply(lambda: folder.write("rows.jsonl", complete_text + '{"resp'))
        assert "rows.jsonl:4" in broken.first(Notice).message
        assert broken.first(AllKnown).summary.total == 3

        mended = await watch.apply(lambda: folder.write("rows.jsonl", complete_text))
        assert mended.verdicts == {}

        more = await watch.apply(lambda: folder.rows(name="more", c=("yes", "yes")))
        assert more.verdicts == {"c": "PASSED"}


async def test_an_invalid_dataset_is_reported_after_each_save(folder: Rows) -> None:
    folder.rows(name="other", c=("yes", "yes"))
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()

        for broken in (b"\xff", b"\xff\xff"):
            save_round = await watch.apply(lambda content=broken: (folder.root / "rows.jsonl").write_bytes(content))
            assert save_round.change.reason == "a changed file has a problem"
            assert "rows.jsonl:1:1: found the byte 0xff, expected UTF-8 text" in save_round.first(Notice).message
            assert save_round.first(AllKnown).summary.total == 4

        emptied = await watch.apply(folder.rows)
        assert emptied.first(Notice).message == "rows.jsonl: no eval case is left in this file"
        assert emptied.first(AllKnown).summary.total == 1

        folder.rows(a=("yes", "yes"))
        await watch.wait_until_quiet()
        deletion = await watch.apply((folder.root / "rows.jsonl").unlink)
        message = "rows.jsonl: the file was deleted; the watch continues with its cases when it is back"
        assert deletion.first(Notice).message == message


async def test_recorded_sessions_are_rescored_if_they_or_their_expectations_change(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write("said.json", _format_sessions(a="yes", b="no"))
    folder.write(
        "workbench.toml", '[targets.said]\nkind = "recorded"\ntarget = "said.json"\neval_sets = ["set.evalset.json"]\n'
    )
    folder.write("set.evalset.json", _format_sessions(a="yes", b="yes"))
    async with watch_project(folder.root) as watch:
        assert (await watch.wait_until_quiet()).verdicts == {"a": "PASSED", "b": "FAILED"}

        edit = await watch.apply(lambda: folder.write("said.json", _format_sessions(a="yes", b="yes")))
        assert edit.verdicts == {"b": "PASSED"}

        expected = await watch.apply(lambda: folder.write("set.evalset.json", _format_sessions(a="no", b="yes")))
        assert expected.verdicts == {"a": "FAILED"}


@pytest.mark.parametrize("value", ['"\\ud800"', "NaN", "[" * 300 + "]" * 300], ids=["surrogate", "nan", "deep"])
async def test_changes_of_rows_with_unusual_json_values_are_found(folder: Rows, value: str) -> None:
    call = '{"tool_name": "t", "tool_input": {"x": %s, "y": %d}}'
    row = '{"eval_id": "a", "response": "yes", "reference": "yes", "predicted_trajectory": [%s]}'
    folder.write("rows.jsonl", row % (call % (value, 1)))
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()

        other = await watch.apply(lambda: folder.write("rows.jsonl", row % (call % (value, 2))))
        assert other.verdicts == {"a": "PASSED"}
    async with watch_project(folder.root) as watch:
        assert (await watch.wait_until_quiet()).verdicts == {}


def _format_sessions(**responses: str) -> str:
    cases: list[dict[str, Any]] = []
    for eval_id, response in responses.items():
        invocation = {**turn(eval_id), "final_response": {"role": "model", "parts": [{"text": response}]}}
        cases.append({"eval_id": eval_id, "conversation": [invocation]})
    return json.dumps({"eval_set_id": "set", "eval_cases": cases})
