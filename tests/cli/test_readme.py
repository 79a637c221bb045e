"""The README says what is so: its examples are read, run and compared with what the program does."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest

from tests.engine.judged import METRIC, judging
from tests.llm.servers import gemini
from workbench.cli.lazy import COMMANDS
from workbench.cli.main import cli
from workbench.metrics.registry import check_criteria, known_metrics
from workbench.model.criteria import read_config
from workbench.model.results import CaseStatus, FailureKind, MetricStatus
from workbench.report.differences import DifferenceKind
from workbench.store.settings import Settings, load_settings
from workbench.store.target_settings import KIND_TABLES, TargetSettings
from workbench.tui.themes import theme_folders

if TYPE_CHECKING:
    from tests.cli.conftest import CommandLine

AGENT = """
def answer(prompt):
    if prompt.startswith("raise"):
        raise ValueError(prompt)
    usage = {"prompt": 1, "candidates": 2}
    calls = [{"name": "set_light", "args": {"room": prompt}}]
    return {"response": "done", "predicted_trajectory": calls, "usage": usage}
"""

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def section(title: str) -> str:
    return README.split(f"\n## {title}\n")[1].split("\n## ")[0]


def command_of(name: str) -> click.Command:
    command = cli.get_command(click.Context(cli), name)  # type: ignore[attr-defined]
    assert isinstance(command, click.Command)
    return command


def options_of(command: click.Command) -> set[str]:
    return {spelling for option in command.params for spelling in option.opts if spelling.startswith("--")}


def test_the_first_two_commands_try_the_samples_and_run_the_tests() -> None:
    first, second = blocks("sh")[:2]

    assert first.rstrip().endswith("workbench demo")
    assert "python -m pytest -n auto" in second


def test_the_files_of_the_quick_start_give_exactly_the_output_that_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = section("Quick start")
    parts = {language: re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE) for language in _QUICK}
    for language, name in _QUICK.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(parts[language][0], encoding="utf-8")
        assert f"`{name}`" in text
    (shown,) = re.findall(r"^```text\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")

    done = subprocess.run(
        [sys.executable, "-m", "workbench.cli.main", "run", "home"],
        stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, encoding="utf-8", check=False,
    )  # fmt: skip

    assert done.returncode == 1
    assert _without_chance(done.stdout) == _without_chance(shown)


_QUICK = {"toml": "workbench.toml", "python": "home/agent.py", "json": "home/light.evalset.json"}


def _without_chance(output: str) -> str:
    """The output without times and the id of the run."""
    return re.sub(r"\d+\.\d\d s|(?<=^run )\S+", "…", output, flags=re.MULTILINE)


def test_every_command_is_listed_with_options_that_it_has() -> None:
    rows = [row for row in section("Commands").splitlines() if row.startswith("| `workbench")]
    listed: set[str] = set()
    for row in rows:
        names = [name for name in re.findall(r"`workbench ([a-z-]+)", row) if name in COMMANDS]
        listed.update(names)
        known = {option for name in names for option in options_of(command_of(name))}
        assert set(re.findall(r"--[a-z_-]+", row)) <= known, row

    assert listed == set(COMMANDS)


@pytest.mark.parametrize("command", ["run", "eval", "score"])
def test_the_formats_of_the_readme_are_those_of_the_commands(command: str) -> None:
    (formats,) = re.findall(r"`run`, `eval` and `score` take `--format ([a-z|]+)`", README)

    (option,) = [option for option in command_of(command).params if option.name == "report_format"]
    assert isinstance(option.type, click.Choice)
    assert formats.split("|") == list(option.type.choices)


def test_every_metric_is_in_the_table_with_its_options() -> None:
    documented: dict[str, str] = {}
    for row in section("Criteria").splitlines():
        if row.startswith("| `"):
            names, *_, options = row.strip("| ").replace("\\|", "").split(" | ")
            documented.update(dict.fromkeys(re.findall(r"`(\w+)`", names), options))

    known = known_metrics()
    assert documented.keys() == known.keys()
    for name, info in known.items():
        assert all(f"`{option}`" in documented[name] for option in info.options), name


def test_the_example_of_criteria_is_accepted() -> None:
    example = next(json.loads(block) for block in blocks("json") if block.startswith('{\n  "criteria"'))

    assert check_criteria(read_config(example, source="README.md")) == []


def test_the_configuration_has_every_key_and_no_other(tmp_path: Path) -> None:
    example = blocks("toml")[-1]
    (tmp_path / "workbench.toml").write_text(example, encoding="utf-8")

    loaded = load_settings(tmp_path, user_file=tmp_path / "none.toml")

    assert loaded.problems == ()
    said = set().union(*(target.model_fields_set for target in loaded.settings.targets.values()))
    assert said == set(TargetSettings.model_fields) - set(KIND_TABLES)
    assert loaded.settings.model_fields_set == set(Settings.model_fields)
    for name in ("run", "judge", "watch", "tui"):
        table = getattr(loaded.settings, name)
        assert table.model_fields_set == set(type(table).model_fields)


@pytest.mark.parametrize("kind", ["http"])
def test_the_table_of_a_kind_is_shown_with_every_key_and_no_other(tmp_path: Path, kind: str) -> None:
    example = next(block for block in blocks("toml") if f'kind = "{kind}"' in block)
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
    documented = next(json.loads(block) for block in blocks("json") if '"schema_version"' in block)

    real = workbench("run", "home", "--format", "json").data

    assert shape(real) == shape(documented)


def test_the_json_of_judge_and_calibrate_has_exactly_the_documented_keys(
    workbench: CommandLine, monkeypatch: pytest.MonkeyPatch, make_turn: Any
) -> None:
    workbench.write("home/agent.py", AGENT)
    workbench.write("home/test_config.json", {"criteria": {METRIC: 1.0}})
    workbench.add_set("home/light.evalset.json", {"off": [make_turn("hall", "done")], "no": [make_turn("raise x", "")]})
    workbench.write("labels.csv", "eval_id,label\noff,pass\nno,fail\n")
    opinion = {"reasoning": "r", "verdict": "valid"}
    documented = [json.loads(block) for block in blocks("json") if '"schema_version"' in block][1:]

    with judging(monkeypatch, lambda _: gemini(json.dumps(opinion))):
        workbench("run", "home")
        opinion["verdict"] = "invalid"
        judged = workbench("judge", "--format", "json").data
    calibrated = workbench("calibrate", "labels.csv", "--format", "json").data

    assert [shape(judged), shape(calibrated)] == [shape(each) for each in documented]
    assert (judged["criteria"][0]["kappa_of"], calibrated["criteria"][0]["kind"]) == ("cohen", "verdict")


def expected_call(room: str) -> dict[str, Any]:
    return {"intermediate_data": {"tool_uses": [{"name": "set_light", "args": {"room": room}}]}}


FREE = ("details", "args", "versions")
"""Objects whose keys are not ours to list."""


def shape(value: Any) -> Any:
    """The keys of all objects; of a list, those of all its items; of metrics and sets by name, those of each."""
    if isinstance(value, list):
        shapes = [shape(item) for item in value]
        return merged([item for item in shapes if item is not None])
    if not isinstance(value, dict):
        return None
    if value and all(isinstance(item, dict) for item in value.values()) and set(value) != {"summary"}:
        return {"*": merged([shape(item) for item in value.values()])}
    return {key: shape(item) if key not in FREE else None for key, item in value.items()}


def merged(shapes: list[Any]) -> Any:
    """One shape of several: all keys of all, and what is below them where any has something there."""
    result: dict[str, Any] = {}
    for one in shapes:
        for key, below in one.items():
            result[key] = merged([item for item in (result.get(key), below) if item]) or None
    return result or None


def test_every_status_and_kind_is_named() -> None:
    text = section("The JSON of a run")

    for word in (*CaseStatus, *MetricStatus, *FailureKind, *DifferenceKind):
        assert re.search(rf"\b{word.value}\b", text), word


def test_its_pictures_are_there() -> None:
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README)

    assert pictures
    assert [name for name in pictures if not (Path(__file__).parents[2] / name).is_file()] == []


@pytest.mark.skipif(sys.platform != "linux", reason="the folder is named for Linux")
def test_the_folder_of_the_users_themes_is_where_they_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (named,) = re.findall(r"themes folder \(on Linux `(.+?)`\)", README)

    assert theme_folders()[1] == Path(named).expanduser()
