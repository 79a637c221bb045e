"""Watch mode with recordings: rows and sessions are scored, and no agent runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.watch.watched import Folder, turn, watching
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
        """Write the dataset: for each row the response and the reference."""
        written = [
            {"eval_id": eval_id, "prompt": "?", "response": response, "reference": reference}
            for eval_id, (response, reference) in rows.items()
        ]
        self.write(f"{name}.jsonl", "".join(json.dumps(row) + "\n" for row in written))


@pytest.fixture
def folder(tmp_path: Path) -> Rows:
    return Rows(tmp_path)


async def test_a_row_that_is_edited_is_judged_again_and_no_other(folder: Rows) -> None:
    async with watching(folder.root) as watched:
        start = await watched.until_quiet()
        assert start.verdicts == {"a": "PASSED", "b": "FAILED", "twin": "FAILED"}
        assert start.first(AllKnown).stale == 0

        said = await watched.after(lambda: folder.rows(a=("yes", "yes"), b=("yes", "yes"), twin=("yes", "other")))
        assert said.verdicts == {"b": "PASSED"}
        assert (said.change.run, said.change.judged, said.change.reason) == (0, 1, "the case changed")

        wanted = await watched.after(lambda: folder.rows(a=("yes", "yes"), b=("yes", "no"), twin=("yes", "other")))
        assert wanted.verdicts == {"b": "FAILED"}

        unrelated = await watched.after(lambda: folder.write("notes.txt", "x"))
        assert unrelated.verdicts == unrelated.stored == {}


async def test_verdicts_of_rows_hold_from_session_to_session_and_wherever_rows_move(folder: Rows) -> None:
    same: dict[str, Any] = {f"twin_{number}": ("yes", f"other {number}") for number in range(30)}
    folder.rows(**same)
    async with watching(folder.root) as watched:
        assert len((await watched.until_quiet()).verdicts) == 30

    async with watching(folder.root) as watched:
        start = await watched.until_quiet()
        assert (start.verdicts, len(start.stored), start.first(AllKnown).stale) == ({}, 30, 0)

        moved = await watched.after(lambda: folder.rows(new=("new", "new"), **same))
        assert moved.verdicts == {"new": "PASSED"}


async def test_criteria_and_the_code_of_metrics_judge_rows_again(folder: Rows) -> None:
    folder.write("metrics.py", METRIC)
    custom = {"exact": {"code_config": {"name": "metrics.exact"}}}
    folder.write("test_config.json", json.dumps({"criteria": {"exact": 1.0}, "custom_metrics": custom}))
    async with watching(folder.root, catches_up=False) as watched:
        await watched.until_quiet()
        lower = json.dumps({"criteria": {"exact": 0.5}, "custom_metrics": custom})
        criteria = await watched.after(lambda: folder.write("test_config.json", lower))
        assert criteria.verdicts == {"a": "PASSED", "b": "FAILED", "twin": "FAILED"}

        code = await watched.after(lambda: folder.write("metrics.py", METRIC.replace("==", "!=")))
        assert code.verdicts == {"a": "FAILED", "b": "PASSED", "twin": "PASSED"}
        assert code.change.reason == "metrics.py: exact() changed"

        back = await watched.after(lambda: folder.write("metrics.py", METRIC))
        assert (back.verdicts, back.stored) == ({}, {"a": "PASSED", "b": "FAILED", "twin": "FAILED"})


async def test_an_edited_metric_judges_again_what_held_when_the_watch_was_turned_on(folder: Rows) -> None:
    folder.write("metrics.py", METRIC)
    custom = {"exact": {"code_config": {"name": "metrics.exact"}}}
    folder.write("test_config.json", json.dumps({"criteria": {"exact": 1.0}, "custom_metrics": custom}))
    async with watching(folder.root) as watched:
        await watched.until_quiet()

    async with watching(folder.root, catches_up=False) as watched:
        assert (await watched.until_quiet()).first(AllKnown).stale == 0
        code = await watched.after(lambda: folder.write("metrics.py", METRIC.replace("==", "!=")))
        assert code.verdicts == {"a": "FAILED", "b": "PASSED", "twin": "PASSED"}


async def test_a_dataset_that_is_half_written_keeps_its_rows_and_a_new_one_is_found(folder: Rows) -> None:
    async with watching(folder.root) as watched:
        await watched.until_quiet()
        whole = (folder.root / "rows.jsonl").read_text()

        broken = await watched.after(lambda: folder.write("rows.jsonl", whole + '{"resp'))
        assert "rows.jsonl:4" in broken.first(Notice).message
        assert broken.first(AllKnown).summary.total == 3

        mended = await watched.after(lambda: folder.write("rows.jsonl", whole))
        assert mended.verdicts == {}

        more = await watched.after(lambda: folder.rows(name="more", c=("yes", "yes")))
        assert more.verdicts == {"c": "PASSED"}


async def test_what_is_wrong_with_a_dataset_is_said_each_time_it_is_saved_so(folder: Rows) -> None:
    folder.rows(name="other", c=("yes", "yes"))
    async with watching(folder.root) as watched:
        await watched.until_quiet()

        for broken in (b"\xff", b"\xff\xff"):
            said = await watched.after(lambda content=broken: (folder.root / "rows.jsonl").write_bytes(content))
            assert said.change.reason == "something is wrong with it"
            assert "rows.jsonl:1:1: found the byte 0xff, expected UTF-8 text" in said.first(Notice).message
            assert said.first(AllKnown).summary.total == 4

        emptied = await watched.after(folder.rows)
        assert emptied.first(Notice).message == "rows.jsonl: there is no eval case in it any longer"
        assert emptied.first(AllKnown).summary.total == 1

        folder.rows(a=("yes", "yes"))
        await watched.until_quiet()
        gone = await watched.after((folder.root / "rows.jsonl").unlink)
        assert gone.first(Notice).message == "rows.jsonl: the file was deleted, and its cases are not watched any more"


async def test_recorded_sessions_are_judged_again_where_they_or_what_was_expected_change(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write("said.json", _sessions(a="yes", b="no"))
    folder.write(
        "workbench.toml", '[targets.said]\nkind = "recorded"\ntarget = "said.json"\neval_sets = ["set.evalset.json"]\n'
    )
    folder.write("set.evalset.json", _sessions(a="yes", b="yes"))
    async with watching(folder.root) as watched:
        assert (await watched.until_quiet()).verdicts == {"a": "PASSED", "b": "FAILED"}

        said = await watched.after(lambda: folder.write("said.json", _sessions(a="yes", b="yes")))
        assert said.verdicts == {"b": "PASSED"}

        expected = await watched.after(lambda: folder.write("set.evalset.json", _sessions(a="no", b="yes")))
        assert expected.verdicts == {"a": "FAILED"}


@pytest.mark.parametrize("value", ['"\\ud800"', "NaN", "[" * 300 + "]" * 300], ids=["surrogate", "nan", "deep"])
async def test_what_is_no_json_is_told_apart_all_the_same(folder: Rows, value: str) -> None:
    call = '{"tool_name": "t", "tool_input": {"x": %s, "y": %d}}'
    row = '{"eval_id": "a", "response": "yes", "reference": "yes", "predicted_trajectory": [%s]}'
    folder.write("rows.jsonl", row % (call % (value, 1)))
    async with watching(folder.root) as watched:
        await watched.until_quiet()

        other = await watched.after(lambda: folder.write("rows.jsonl", row % (call % (value, 2))))
        assert other.verdicts == {"a": "PASSED"}
    async with watching(folder.root) as watched:
        assert (await watched.until_quiet()).verdicts == {}


def _sessions(**responses: str) -> str:
    cases: list[dict[str, Any]] = []
    for eval_id, response in responses.items():
        said = {**turn(eval_id), "final_response": {"role": "model", "parts": [{"text": response}]}}
        cases.append({"eval_id": eval_id, "conversation": [said]})
    return json.dumps({"eval_set_id": "set", "eval_cases": cases})
