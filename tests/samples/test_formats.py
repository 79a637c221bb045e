"""The eval sets of the samples cover every format, and google-adk reads those in strict JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

SAMPLES = Path(__file__).parents[2] / "sample_agents"
NOT_STRICT = {"light_off_zh.test.json"}
FILES = sorted(
    path
    for path in SAMPLES.glob("*/*.json")
    if path.name.endswith((".evalset.json", ".test.json")) and path.name not in NOT_STRICT
)


@pytest.mark.needs_adk
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_adk_reads_the_strict_files(path: Path) -> None:
    from google.adk.evaluation.eval_set import EvalSet

    eval_set = EvalSet.model_validate_json(path.read_text(encoding="utf-8"))

    assert eval_set.eval_cases


def test_one_set_has_comments_and_trailing_commas() -> None:
    text = (SAMPLES / "home_automation" / "light_off_zh.test.json").read_text(encoding="utf-8")

    assert {"// ", "# ", "/* "} <= {mark for mark in ("// ", "# ", "/* ") if mark in text}
    with pytest.raises(ValueError):
        json.loads(text)


def test_eval_set_ids_are_unique() -> None:
    ids = [json.loads(path.read_text(encoding="utf-8"))["eval_set_id"] for path in FILES]

    assert len(ids) == len(set(ids))
