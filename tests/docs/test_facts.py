"""Tables and examples of the documentation agree with the program."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import pytest

from tests.docs.blocks import ROOT, read_blocks
from tests.engine.judged import METRIC, serve_judge
from tests.llm.servers import gemini
from workbench.metrics.registry import check_criteria, known_metrics
from workbench.model.criteria import read_config
from workbench.model.facts import Fact
from workbench.model.results import CaseStatus, FailureKind, MetricStatus
from workbench.model.run_events import QuotaWait
from workbench.model.turn_diff import DifferenceKind
from workbench.store.settings import KIND_TABLES, Settings, TargetSettings, load_settings
from workbench.tui.keys import check_keys
from workbench.tui.themes import theme_folders
from workbench.watch.watch_events import WatchFact

if TYPE_CHECKING:
    from tests.cli.command_line import CommandLine

AGENT = """
def answer(prompt):
    if prompt.startswith("raise"):
        raise ValueError(prompt)
    usage = {"prompt": 1, "candidates": 2}
    calls = [{"name": "set_light", "args": {"room": prompt}}]
    return {"response": "done", "predicted_trajectory": calls, "usage": usage}
"""

DOCS = ROOT / "docs"


def read_page(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def read_block_texts(page: str, kind: str) -> list[str]:
    return [block.text for block in read_blocks(DOCS / page) if block.kind == kind]


def read_documents() -> list[dict[str, Any]]:
    """Return the documents with a schema version, in the order of the page."""
    return [json.loads(block) for block in read_block_texts("formats.md", "json")]


def test_the_table_lists_every_metric_with_its_options() -> None:
    documented: dict[str, str] = {}
    for row in read_page("criteria.md").split("\n## Metrics\n")[1].split("\n## ")[0].splitlines():
        if row.startswith("| `"):
            names, *_, options = row.strip("| ").replace("\\|", "").split(" | ")
            documented.update(dict.fromkeys(re.findall(r"`(\w+)`", names), options))

    known = known_metrics()
    assert documented.keys() == known.keys()
    for name, info in known.items():
        assert all(f"`{option}`" in documented[name] for option in info.options), name


def test_the_example_of_criteria_is_valid() -> None:
    example = json.loads(read_block_texts("criteria.md", "json")[0])

    assert check_criteria(read_config(example, source="criteria.md")) == []


def test_the_configuration_example_has_every_key_and_no_other(tmp_path: Path) -> None:
    example = read_block_texts("configuration.md", "toml")[0]
    (tmp_path / "workbench.toml").write_text(example, encoding="utf-8")

    loaded = load_settings(tmp_path, user_file=tmp_path / "none.toml")

    assert loaded.problems == ()
    documented = set().union(*(target.model_fields_set for target in loaded.settings.targets.values()))
    assert documented == set(TargetSettings.model_fields) - set(KIND_TABLES)
    assert loaded.settings.model_fields_set == set(Settings.model_fields)
    for name in ("run", "judge", "watch", "tui"):
        table = getattr(loaded.settings, name)
        assert table.model_fields_set == set(type(table).model_fields)


@pytest.mark.parametrize("kind", KIND_TABLES)
def test_the_example_of_each_agent_kind_has_every_key_and_no_other(tmp_path: Path, kind: str) -> None:
    example = read_block_texts(f"agents/{kind}.md", "toml")[0]
    (tmp_path / "workbench.toml").write_text(example, encoding="utf-8")

    loaded = load_settings(tmp_path, user_file=tmp_path / "none.toml")

    assert loaded.problems == ()
    (target,) = loaded.settings.targets.values()
    assert target.options.keys() == KIND_TABLES[kind].model_fields.keys()


def test_the_json_of_a_run_has_exactly_the_documented_keys(workbench: CommandLine) -> None:
    workbench.write("home/agent.py", AGENT)
    turn = {"user_content": {"parts": [{"text": "raise x"}]}}
    workbench.add_set(
        "home/light.evalset.json",
        {
            "off": [{**turn, "user_content": {"parts": [{"text": "light hall"}]}, **expected_call("bedroom")}],
            "no": [turn],
        },
    )

    real = workbench("run", "home", "--format", "json").data

    assert find_shape(real) == find_shape(read_documents()[0])


def test_the_json_of_judge_and_calibrate_has_exactly_the_documented_keys(
    workbench: CommandLine, monkeypatch: pytest.MonkeyPatch, make_turn: Any
) -> None:
    workbench.write("home/agent.py", AGENT)
    workbench.write("home/test_config.json", {"criteria": {METRIC: 1.0}})
    workbench.add_set("home/light.evalset.json", {"off": [make_turn("hall", "done")], "no": [make_turn("raise x", "")]})
    workbench.write("labels.csv", "eval_id,label\noff,pass\nno,fail\n")
    opinion = {"reasoning": "r", "verdict": "valid"}

    with serve_judge(monkeypatch, lambda _: gemini(json.dumps(opinion))):
        workbench("run", "home")
        opinion["verdict"] = "invalid"
        judged = workbench("judge", "--format", "json").data
    calibrated = workbench("calibrate", "labels.csv", "--format", "json").data

    assert [find_shape(judged), find_shape(calibrated)] == [find_shape(each) for each in read_documents()[1:3]]
    assert (judged["criteria"][0]["kappa_of"], calibrated["criteria"][0]["kind"]) == ("cohen", "verdict")


def test_the_json_of_dialects_and_of_lint_has_exactly_the_documented_keys(workbench: CommandLine) -> None:
    call = '[{"tool_name": "a", "tool_input": {}}]'
    rows = f"{{'prompt': 'x', 'predicted_trajectory': {call}, 'reference_trajectory': {call}}}".replace("'", '"')
    workbench.write("rows.jsonl", f"{rows}\n{rows}\n")

    dialects = workbench("dialects", "rows.jsonl", "--format", "json").data
    lint = workbench("dataset", "lint", "rows.jsonl", "--format", "json").data

    assert lint["findings"]
    assert [find_shape({**dialects, "policies": None}), find_shape(lint)] == [
        find_shape({**read_documents()[3], "policies": None}),
        find_shape(read_documents()[4]),
    ]
    assert len(read_documents()) == 5


def test_the_keys_of_history_and_comparison_are_documented(workbench: CommandLine) -> None:
    text = read_page("formats.md")
    for _ in range(2):
        workbench("run", "home")

    for command in ("history", "compare"):
        record = workbench(command, "--format", "json", *(["--all"] if command == "compare" else [])).data
        keys = set(record) | {
            key for value in record.values() if isinstance(value, list) for each in value for key in each
        }
        assert [key for key in keys if f"`{key}`" not in text and f'"{key}"' not in text] == []


@pytest.mark.parametrize("event", [*get_args(WatchFact), QuotaWait])
def test_watch_events_are_documented_with_their_keys(event: type[Fact]) -> None:
    text = read_page("formats.md").split("\n## Watch events\n")[1].split("\n## ")[0]
    (row,) = [row for row in text.splitlines() if row.startswith(f"| `{event.model_fields['kind'].default}` |")]

    names = {name for name, field in event.model_fields.items() if not field.exclude}
    keys = names - {"kind", "result", "case"}  # the keys of a verdict are those of a case
    assert [key for key in keys if f"`{key}`" not in row] == []


def expected_call(room: str) -> dict[str, Any]:
    return {"intermediate_data": {"tool_uses": [{"name": "set_light", "args": {"room": room}}]}}


FREE = ("details", "args", "versions")
"""Objects with undocumented keys."""


def find_shape(value: Any) -> Any:
    """Return the nested keys of a value; items of a list, or values of a mapping from names, are merged."""
    if isinstance(value, list):
        shapes = [find_shape(item) for item in value]
        return merge_shapes([item for item in shapes if item is not None])
    if not isinstance(value, dict):
        return None
    if value and all(isinstance(item, dict) for item in value.values()) and set(value) != {"summary"}:
        return {"*": merge_shapes([find_shape(item) for item in value.values()])}
    return {key: find_shape(item) if key not in FREE else None for key, item in value.items()}


def merge_shapes(shapes: list[Any]) -> Any:
    """Merge shapes into one with all their keys."""
    result: dict[str, Any] = {}
    for one in shapes:
        for key, nested in one.items():
            result[key] = merge_shapes([item for item in (result.get(key), nested) if item]) or None
    return result or None


def test_every_status_and_kind_is_documented() -> None:
    text = read_page("formats.md")

    for word in (*CaseStatus, *MetricStatus, *FailureKind, *DifferenceKind):
        assert re.search(rf"\b{word.value}\b", text), word


@pytest.mark.parametrize("page", ["keys.md", "configuration.md"])
def test_the_key_bindings_of_examples_are_valid(page: str) -> None:
    keys = tomllib.loads(read_block_texts(page, "toml")[0])["keys"]

    assert check_keys(keys) == (keys, {})


@pytest.mark.skipif(sys.platform != "linux", reason="the folder is named for Linux")
def test_the_documented_themes_folder_is_the_one_that_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (folder,) = re.findall(r"themes folder \(on Linux `(.+?)`\)", read_page("screen.md"))

    assert theme_folders()[1] == Path(folder).expanduser()
