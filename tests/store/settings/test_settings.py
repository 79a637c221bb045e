"""workbench.toml: its valid content, and the messages for invalid content."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.store.errors import StoreError
from workbench.store.settings import LoadedSettings, Settings, load_settings
from workbench.store.toml_files import read_toml

DESIGN_EXAMPLE = """
# workbench.toml at the root of the project
[targets.home_automation]
kind = "function"                     # function, adk, langchain, agent_engine, a2a, http, command, recorded
target = "home_automation.agent:answer"
path = "sample_agents"                # import root, working directory
python = ".venv/bin/python"           # the agent's own interpreter
env_file = ".env"
eval_sets = ["home_automation/*.evalset.json"]
config = "home_automation/test_config.json"
watch = ["prompts"]                   # more paths whose change reruns every case
rerun = "affected"                    # or "always"

[run]
concurrency = 8
timeout_seconds = 120
runs = 1
isolation = "case"                    # or "worker"

[judge]
model = "gemini-2.5-flash"

[tui]
theme = "dark"
[keys]
run_case = "r"
"""


def load(root: Path, text: str, *, user: str | None = None) -> LoadedSettings:
    (root / "workbench.toml").write_text(text, encoding="utf-8")
    user_file = root / "user" / "workbench.toml"
    if user is not None:
        user_file.parent.mkdir()
        user_file.write_text(user, encoding="utf-8")
    return load_settings(root, user_file=user_file)


def test_without_a_file_the_defaults_apply(tmp_path: Path) -> None:
    loaded = load_settings(tmp_path, user_file=tmp_path / "none.toml")

    assert loaded == LoadedSettings(settings=Settings(), path=None, problems=())
    run = loaded.settings.run
    assert (run.concurrency, run.timeout_seconds, run.runs, run.isolation) == (8, 120.0, 1, "case")


def test_every_key_of_the_example_is_known(tmp_path: Path) -> None:
    loaded = load(tmp_path, DESIGN_EXAMPLE)

    assert loaded.problems == ()
    assert loaded.path == tmp_path / "workbench.toml"
    assert loaded.settings.model_dump(exclude_unset=True) == {
        **tomllib.loads(DESIGN_EXAMPLE),
        "targets": {
            "home_automation": {
                **tomllib.loads(DESIGN_EXAMPLE)["targets"]["home_automation"],
                "eval_sets": ("home_automation/*.evalset.json",),
                "watch": ("prompts",),
            }
        },
    }


def test_an_unknown_key_is_reported_with_its_line_and_the_nearest_known_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    loaded = load(
        tmp_path,
        "\n[run]\nruns = 2\nconcurency = 3\n[targets.x]\nkind = 'recorded'\nwatch = [\n 'a',\n]\npyton = '''\n'''\n"
        "[jugde]\nmodel = 'm'\n[simulation]\nmodell = 'm'\n[run.ray]\nadress = 'auto'\n",
    )

    assert loaded.settings.run.runs == 2
    assert loaded.problems == (
        "workbench.toml:4: run.concurency: unknown key, expected one of concurrency, timeout_seconds, runs, isolation, "
        "confirm, adk_results, executor, ray; did you mean 'concurrency'?",
        "workbench.toml:17: run.ray.adress: unknown key, expected one of address, runtime_env, resources, max_workers; "
        "did you mean 'address'?",
        "workbench.toml:10: targets.x.pyton: unknown key, expected one of kind, target, path, python, env_file, "
        "eval_sets, config, watch, rerun, scripted_models, simulate_tools, tools, columns, a2a, http, command; did you "
        "mean 'python'?",
        "workbench.toml:12: jugde: unknown key, expected one of targets, run, judge, simulation, replay, watch, tui, "
        "keys; did you mean 'judge'?",
        "workbench.toml:15: simulation.modell: unknown key, expected one of model; did you mean 'model'?",
    )


OTHER_VENDOR = ": models of vendors other than Google are named provider/model"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("[run]\nruns = 'two'", 2, "run.runs: found 'two', expected a whole number"),
        ("[run]\nruns = 2.0", 2, "run.runs: found 2.0, expected a whole number"),
        ("[run]\nruns = true", 2, "run.runs: found true, expected a whole number"),
        ("[run]\nruns = 0", 2, "run.runs: found 0, expected 1 or more"),
        ("[run]\n\n# c\ntimeout_seconds = -1", 4, "run.timeout_seconds: found -1, expected more than 0"),
        ("[run]\ntimeout_seconds = nan", 2, "run.timeout_seconds: found nan, expected more than 0"),
        ("[run]\ntimeout_seconds = '9'", 2, "run.timeout_seconds: found '9', expected a number"),
        ("[run]\nisolation = 'none'", 2, "run.isolation: found 'none', expected 'case' or 'worker'"),
        ("[run]\nexecutor = 'slurm'", 2, "run.executor: found 'slurm', expected 'local' or 'ray'"),
        (
            "[run.ray]\naddress = 'head'",
            2,
            "run.ray.address: found 'head', expected auto, host:port or ray://host:port",
        ),
        ("[run.ray]\nmax_workers = 0", 2, "run.ray.max_workers: found 0, expected 1 or more"),
        ("[run.ray]\nresources = {CPU = 0}", 2, "run.ray.resources: found a table, expected numbers above 0"),
        (
            "[run.ray]\n\nruntime_env = {env_vars = {API_KEY = 'a'}}",
            3,
            "run.ray.runtime_env: found a table, expected env_vars as a list of names of variables; values come from "
            "your environment",
        ),
        (
            "[run.ray.runtime_env]\nworking_dir = '.'",
            1,
            "run.ray.runtime_env: found a table, expected no working_dir: the project is the working folder",
        ),
        ("run = 3", 1, "run: found 3, expected a table"),
        ("[judge]\nmodel = 'gpt-4o'", 2, f"judge.model: found 'gpt-4o', expected 'openai/gpt-4o'{OTHER_VENDOR}"),
        ("[simulation]\nmodel = 'o3'", 2, f"simulation.model: found 'o3', expected 'openai/o3'{OTHER_VENDOR}"),
        ("targets = []", 1, "targets: found a list, expected a table"),
        ("[targets]\nx = 3", 2, "targets.x: found 3, expected a table"),
        (
            "[targets.x]",
            1,
            "targets.x.kind: found nothing, expected function, adk, langchain, agent_engine, a2a, http, command or "
            "recorded",
        ),
        ("[keys]\nrun_case = 2020-01-01", 2, "keys.run_case: found datetime.date(2020, 1, 1), expected text"),
        (
            "[targets.x]\nkind = 'recorded'\neval_sets = 'a'",
            3,
            "targets.x.eval_sets: found 'a', expected a list of texts",
        ),
        ("[targets.x]\nkind = 'recorded'\nwatch = [\n'a',\n3]", 3, "targets.x.watch[1]: found 3, expected text"),
        (
            "[targets.x]\nkind = 'function'",
            1,
            "targets.x.target: found nothing, expected package.module:callable",
        ),
        (
            "[targets.x]\ntarget='a'\nkind = 'function'",
            2,
            "targets.x.target: found 'a', expected package.module:callable",
        ),
        (
            "[targets.x]\nkind = 'recorded'\n[targets.x.columns]\nrespons = 'a'",
            3,
            "targets.x.columns: found a table, expected one of prompt, response, reference, predicted_trajectory, "
            "reference_trajectory, eval_id, latency_in_seconds, messages, reference_messages before '='; did you "
            "mean 'response'?",
        ),
        (
            "[targets.x]\nkind = 'adk'\ntarget = 'a'\ncolumns = {response = 'a'}",
            4,
            "targets.x.columns: found a table, expected no table here: only targets of kind recorded have columns",
        ),
        ("[targets.x]\nkind = 'adk'", 1, "targets.x.target: found nothing, expected the folder of the agent"),
        (
            "[targets.x]\nkind = 'functoin'",
            2,
            "targets.x.kind: found 'functoin', expected one of function, adk, langchain, agent_engine, a2a, http, "
            "command, recorded; did you mean 'function'?",
        ),
    ],
)
def test_an_invalid_value_is_an_error_with_line_path_found_and_expected(
    tmp_path: Path, text: str, line: int, message: str
) -> None:
    with pytest.raises(StoreError) as raised:
        load(tmp_path, text)

    assert str(raised.value) == f"{tmp_path / 'workbench.toml'}:{line}:1: {message}"


def test_broken_toml_is_an_error_with_line_and_column(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as raised:
        load(tmp_path, "[run]\nruns = \n")

    assert (raised.value.line, raised.value.column) == (2, 8)
    assert "workbench.toml:2:8: is not TOML: Invalid value" in str(raised.value)


def test_a_byte_order_mark_and_windows_line_ends_are_accepted(tmp_path: Path) -> None:
    (tmp_path / "workbench.toml").write_bytes(b"\xef\xbb\xbf[run]\r\nruns = 3\r\n")

    assert load_settings(tmp_path, user_file=tmp_path / "none").settings.run.runs == 3


def test_invalid_utf_8_and_a_folder_instead_of_the_file_are_errors(tmp_path: Path) -> None:
    (tmp_path / "workbench.toml").write_bytes(b"[tui]\ntheme = '\xff'")
    with pytest.raises(StoreError, match=r"workbench\.toml:2:10: found the byte 0xff"):
        load_settings(tmp_path, user_file=tmp_path / "none")

    with pytest.raises(StoreError, match="it is a folder"):
        load_settings(tmp_path, user_file=tmp_path)


def test_user_settings_apply_if_the_project_does_not_set_them(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        "[run]\nruns = 2\n[keys]\na = 'b'",
        user="[run]\nruns = 5\nconcurrency = 4\n[tui]\ntheme = 'light'\n[keys]\na = 'x'\nc = 'd'\n"
        "[targets.t]\nkind = 'recorded'\n",
    )

    assert (loaded.settings.run.runs, loaded.settings.run.concurrency) == (2, 4)
    assert loaded.settings.tui.theme == "light"
    assert loaded.settings.keys == {"a": "b", "c": "d"}
    assert loaded.settings.targets == {}
    assert len(loaded.problems) == 1
    assert "targets are ignored here; put them into the workbench.toml of a project" in loaded.problems[0]


def test_messages_about_a_setting_start_with_the_line_that_sets_it(tmp_path: Path) -> None:
    loaded = load(tmp_path, "[run]\nruns = 2\n[keys]\na = 'b'", user="[keys]\na = 'x'\n\nc = 'd'\n")

    assert loaded.add_location(("keys", "a"), "no") == f"{tmp_path / 'workbench.toml'}:4: no"
    assert loaded.add_location(("keys", "c"), "no") == f"{tmp_path / 'user' / 'workbench.toml'}:4: no"
    assert loaded.add_location(("tui", "theme"), "no") == "no"


def test_an_invalid_value_in_the_users_file_names_that_file(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"user/workbench\.toml:1:1: tui: found 1, expected a table"):
        load(tmp_path, "", user="tui = 1")


KEYS = st.from_regex(r"[a-z]{1,5}", fullmatch=True)
VALUES = st.sampled_from(["1", "'a'", "[\n  1,\n  2,\n]", "'''\n[x]\nb = 1\n'''", "{ p = 1, q = 2 }", "true"])
GAPS = st.sampled_from(["", "\n", "# comment = 1\n", "   \n\n"])


@given(st.dictionaries(KEYS, st.dictionaries(KEYS, st.tuples(GAPS, VALUES), max_size=4), max_size=5))
def test_the_line_of_every_key_is_found(
    tmp_path_factory: pytest.TempPathFactory, tables: dict[str, dict[str, tuple[str, str]]]
) -> None:
    text = ""
    lines: dict[tuple[str, ...], int] = {}
    for table, members in tables.items():
        lines[(table,)] = text.count("\n") + 1
        text += f"[{table}]\n"
        for key, (gap, value) in members.items():
            text += gap
            lines[(table, key)] = text.count("\n") + 1
            text += f"{key} = {value}\n"
    path = tmp_path_factory.getbasetemp() / "lines.toml"
    path.write_text(text, encoding="utf-8")

    file = read_toml(path)

    assert {place: file.find_line(place) for place in lines} == lines


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"a = {'[' * 1_000}{']' * 1_000}", "workbench.toml: found a value nested too deeply"),
        (f"a = {'1' * 4_301}", "workbench.toml: found an integer of over 4300 digits"),
        (
            f"[run]\nconcurrency = {'1' * 310}",
            "toml:2:1: run.concurrency: found an integer of about 310",
        ),
    ],
)
def test_values_that_python_cannot_hold_are_clear_errors(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "workbench.toml").write_text(text)

    with pytest.raises(StoreError, match=re.escape(message)):
        load_settings(tmp_path)


def test_every_setting_is_listed_with_its_value_and_the_line_that_defines_it(tmp_path: Path) -> None:
    own, project = tmp_path / "own.toml", tmp_path / "workbench.toml"
    own.write_text('[tui]\ntheme = "light"\n[run]\nruns = 2\n')
    project.write_text('[run]\n\nruns = 3\n[targets.home]\nkind = "function"\ntarget = "a:b"\n')

    settings = {each.place: each for each in load_settings(tmp_path, user_file=own).list_values()}

    assert settings["run", "runs"].value == "3"
    assert settings["run", "runs"].where == f"{project}:3"
    assert (settings["tui", "theme"].path, settings["tui", "theme"].line) == (own, 2)
    assert settings["targets", "home"] == (("targets", "home"), "function a:b", project, 4)
    assert settings["run", "isolation"] == (("run", "isolation"), "case", None, None)
    assert settings["judge", "require_all_samples"].value == "false"
    assert settings["judge", "max_calls"].value == ""
    assert settings["judge", "max_calls"].where == ""
