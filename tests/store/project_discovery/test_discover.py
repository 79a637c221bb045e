"""Roots, targets, eval sets and their owners."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.store.project_folder import ADK_AGENT, ProjectFolder
from workbench.model.target import AgentKind
from workbench.store.errors import StoreError
from workbench.store.project_discovery import find_criteria_file, make_adk_target


def test_a_project_on_a_path_that_is_not_utf8_is_refused_with_advice(tmp_path: Path) -> None:
    root = tmp_path / os.fsdecode(b"f\xfcr")
    try:
        root.mkdir()
    except OSError:
        pytest.skip("this file system has UTF-8 names only")

    with pytest.raises(StoreError, match=r"the path of the project is not valid UTF-8; rename the folder"):
        ProjectFolder(root).discover()


def test_an_agent_with_its_sets_needs_no_configuration(folder: ProjectFolder) -> None:
    folder.write_agent("agents/weather")
    folder.write_set("agents/weather/one.evalset.json")
    folder.write_set("agents/weather/eval/deep/two.test.json")
    folder.write("agents/.env")

    project = folder.discover()

    target = project.targets["weather"]
    assert (target.kind, target.location, target.path) == (AgentKind.ADK, "weather", folder.root / "agents")
    assert target.env_file == folder.root / "agents" / ".env"
    assert [(entry.relative, entry.target, entry.kind) for entry in project.eval_sets] == [
        ("agents/weather/eval/deep/two.test.json", "weather", "test"),
        ("agents/weather/one.evalset.json", "weather", "evalset"),
    ]
    assert project.problems == ()


def test_an_env_file_above_the_root_is_ignored(folder: ProjectFolder) -> None:
    folder.write_agent("a")
    (folder.root.parent / ".env").touch()

    assert folder.discover().targets["a"].env_file is None


def test_agents_with_the_same_name_are_named_by_their_path(folder: ProjectFolder) -> None:
    for name in ("x/bot", "y/bot", "other"):
        folder.write_agent(name)

    assert set(folder.discover().targets) == {"x/bot", "y/bot", "other"}


def test_a_set_belongs_to_the_agent_below_its_nearest_parent_folder(folder: ProjectFolder) -> None:
    folder.write_agent("team/agents/a")
    folder.write_agent("elsewhere/b")
    folder.write_set("team/tests/eval/x.evalset.json")

    assert folder.entry("team/tests/eval/x.evalset.json").target == "a"


def test_the_app_name_of_the_cases_selects_among_several_agents(folder: ProjectFolder) -> None:
    folder.write_agent("a")
    folder.write_agent("b")
    folder.write_set("tests/x.evalset.json", app_names=("b", "b"))
    folder.write_set("tests/unknown.evalset.json", app_names=("c",))
    folder.write_set("tests/both.evalset.json", app_names=("a", "b"))
    folder.write("tests/comment.evalset.json", '{"evalCases": [{"sessionInput": { // who\n"appName": "a", // app\n}}]}')
    folder.write("tests/legacy.test.json", '[{"initial_session": {"state": {}, "app_name": "a"}}]')

    assert folder.entry("tests/x.evalset.json").target == "b"
    assert folder.entry("tests/comment.evalset.json").target == "a"
    assert folder.entry("tests/legacy.test.json").target == "a"
    for name in ("unknown", "both"):
        entry = folder.entry(f"tests/{name}.evalset.json")
        assert entry.target is None
        assert "2 agents match (a, b)" in (entry.unpaired_reason or "")


def test_a_set_in_the_folder_of_an_agent_belongs_to_it_despite_sub_agents(folder: ProjectFolder) -> None:
    folder.write_agent("boss")
    folder.write_agent("boss/sub_agents/helper")
    folder.write_set("boss/x.evalset.json", app_names=("whatever",))

    assert folder.entry("boss/x.evalset.json").target == "boss"


def test_a_set_beside_an_agent_with_sub_agents_belongs_to_it(folder: ProjectFolder) -> None:
    for name in ("boss", "boss/sub_agents/helper", "boss/sub_agents/writer"):
        folder.write_agent(f"project/{name}")
    folder.write_set("project/eval/x.evalset.json")
    folder.write_set("project/boss/sub_agents/y.evalset.json")

    assert folder.entry("project/eval/x.evalset.json").target == "boss"
    assert "2 agents match (helper, writer)" in (
        folder.entry("project/boss/sub_agents/y.evalset.json").unpaired_reason or ""
    )


@pytest.mark.parametrize(
    ("name", "text", "reason_part"),
    [
        ("agent.py", ADK_AGENT.replace("root_agent", "root_agnet"), "defines 'root_agnet', expected 'root_agent'"),
        ("agent.py", ADK_AGENT.replace("root_agent", "helper"), "home: agent.py defines none of root_agent, app"),
        ("agent.py", "def answer(prompt): return prompt", "home: agent.py imports nothing from google.adk"),
        (
            "agent.py",
            "from google.adk import Agent\n\nx = (",
            "home: agent.py:3: not readable as Python: '(' was never",
        ),
        ("root_agnet.yaml", "name: home", "home: root_agnet.yaml is not read: rename it to root_agent.yaml"),
        ("root_agent.yml", "name: home", "home: root_agent.yml is not read: rename it to root_agent.yaml"),
        ("Root_Agent.yaml", "name: home", "home: Root_Agent.yaml is not read: rename it to root_agent.yaml"),
        ("agent.yaml", "name: a\ninstruction: x", "home: agent.yaml is not read: rename it to root_agent.yaml"),
        ("Agent.py", ADK_AGENT, "home: Agent.py is not read: rename it to agent.py"),
        ("agnet.py", ADK_AGENT, "home: agnet.py is not read: rename it to agent.py"),
    ],
)
def test_a_set_next_to_an_incomplete_agent_reports_what_is_missing(
    folder: ProjectFolder, name: str, text: str, reason_part: str
) -> None:
    folder.write(f"home/{name}", text)
    folder.write_set("home/s.evalset.json")

    (entry,) = folder.discover().eval_sets

    assert reason_part in str(entry.unpaired_reason)


def test_a_set_next_to_a_broken_agent_belongs_to_no_other_agent(folder: ProjectFolder) -> None:
    folder.write_agent("good")
    folder.write("bad/agent.py", ADK_AGENT.replace("root_agent", "root_agnet"))
    folder.write_set("bad/s.evalset.json")
    folder.write_set("bad/named.evalset.json", app_names=("good",))

    assert folder.entry("bad/s.evalset.json").target is None
    assert "bad: agent.py defines 'root_agnet'" in str(folder.entry("bad/s.evalset.json").unpaired_reason)
    assert folder.entry("bad/named.evalset.json").target == "good"


def test_a_set_next_to_a_helper_of_an_agent_belongs_to_that_agent(folder: ProjectFolder) -> None:
    folder.write_agent("boss")
    folder.write("boss/helper/agent.py", ADK_AGENT.replace("root_agent", "helper"))
    folder.write_set("boss/helper/s.evalset.json")

    assert folder.entry("boss/helper/s.evalset.json").target == "boss"


def test_a_set_without_any_agent_has_a_reason_with_advice(folder: ProjectFolder) -> None:
    folder.write_set("x.evalset.json")

    entry = folder.entry("x.evalset.json")

    assert entry.target is None
    assert "eval_sets" in (entry.unpaired_reason or "")


def test_a_configured_function_claims_the_sets_that_match_its_patterns(folder: ProjectFolder) -> None:
    folder.write(
        "workbench.toml",
        """
        [targets.home]
        kind = "function"
        target = "home_automation.agent:answer"
        path = "samples"
        python = ".venv/bin/python"
        env_file = ".env"
        eval_sets = ["home_automation/*.evalset.json"]
        config = "home_automation/test_config.json"
        """,
    )
    folder.write(".env")
    folder.write("samples/home_automation/agent.py", "def answer(prompt): return prompt\n")
    folder.write("samples/home_automation/test_config.json", "{}")
    folder.write(".venv/bin/python")
    folder.write_set("samples/home_automation/a.evalset.json")
    folder.write_set("samples/home_automation/deeper/b.evalset.json")
    folder.write_agent("samples/home_automation/deeper")

    project = folder.discover()

    home = project.targets["home"]
    assert home.path == folder.root / "samples"
    assert home.python == folder.root / ".venv/bin/python"
    assert home.env_file == folder.root / ".env"
    assert home.config == folder.root / "samples/home_automation/test_config.json"
    assert {entry.relative: entry.target for entry in project.eval_sets} == {
        "samples/home_automation/a.evalset.json": "home",
        "samples/home_automation/deeper/b.evalset.json": "deeper",
    }
    assert project.eval_sets[0].config == home.config
    assert project.problems == ()


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("**/*.evalset.json", {"a.evalset.json", "x/b.evalset.json", "x/y/c.evalset.json"}),
        ("x/**/*.json", {"x/b.evalset.json", "x/y/c.evalset.json"}),
        ("x/?.evalset.json", {"x/b.evalset.json"}),
        ("[ab].evalset.json", {"a.evalset.json"}),
        ("x/[!z].evalset.json", {"x/b.evalset.json"}),
        ("./a.evalset.json", {"a.evalset.json"}),
        ("other/cases.json", {"other/cases.json"}),
    ],
)
def test_patterns_select_eval_sets_by_path(folder: ProjectFolder, pattern: str, expected: set[str]) -> None:
    folder.write("workbench.toml", f"[targets.t]\nkind = 'recorded'\neval_sets = ['{pattern}']\n")
    for name in ("a.evalset.json", "x/b.evalset.json", "x/y/c.evalset.json", "other/cases.json"):
        folder.write_set(name)

    assert {entry.relative for entry in folder.discover().eval_sets if entry.target == "t"} == expected


def test_a_pattern_with_many_stars_matches_quickly(folder: ProjectFolder) -> None:
    folder.write("workbench.toml", f"[targets.t]\nkind = 'recorded'\neval_sets = ['{'*a' * 30}.evalset.json']\n")
    folder.write_set("a" * 100 + "b.evalset.json")
    folder.write_set("a" * 100 + ".evalset.json")

    claimed = [entry.relative for entry in folder.discover().eval_sets if entry.target == "t"]

    assert claimed == ["a" * 100 + ".evalset.json"]


def test_a_configured_agent_replaces_the_discovered_one(folder: ProjectFolder) -> None:
    folder.write_agent("agents/weather")
    folder.write_set("agents/weather/x.evalset.json")
    folder.write("workbench.toml", "[targets.sky]\nkind = 'adk'\ntarget = 'agents/weather'\n")

    project = folder.discover()

    assert list(project.targets) == ["sky"]
    assert project.targets["sky"].path / project.targets["sky"].location == folder.root / "agents/weather"
    assert project.eval_sets[0].target == "sky"


def test_a_configured_function_without_patterns_is_paired_by_location(folder: ProjectFolder) -> None:
    folder.write("workbench.toml", "[targets.f]\nkind = 'function'\ntarget = 'bot.agent:run'\n")
    folder.write("bot/agent.py", "def run(prompt): ...")
    folder.write_set("bot/x.evalset.json")

    assert folder.entry("bot/x.evalset.json").target == "f"


def test_missing_paths_in_the_configuration_are_problems(folder: ProjectFolder) -> None:
    folder.write(
        "workbench.toml",
        "[targets.f]\nkind = 'function'\ntarget = 'a:b'\npath = 'nowhere'\neval_sets = ['*.none']\npython = 'b/none'\n"
        "[targets.g]\nkind = 'adk'\ntarget = 'missing'\n",
    )

    problems = folder.discover().problems

    assert problems[0] == f"workbench.toml: targets.f.path: there is no {folder.root / 'nowhere'}"
    assert problems[1] == f"workbench.toml: targets.f.python: there is no {folder.root / 'b/none'}"
    assert "targets.g.target" in problems[2]
    assert "there is no such agent" in problems[2]
    assert problems[3] == "workbench.toml: targets.f.eval_sets: *.none matches no file"


def test_sets_of_a_target_without_an_agent_belong_to_no_other_agent(folder: ProjectFolder) -> None:
    folder.write(
        "workbench.toml", "[targets.g]\nkind = 'adk'\ntarget = 'missing'\neval_sets = ['**/x*.evalset.json']\n"
    )
    folder.write_agent("other")
    folder.write_set("other/x.evalset.json")
    folder.write_set("other/y.evalset.json")

    project = folder.discover()
    x, y = project.eval_sets

    assert (x.target, y.target) == (None, "other")
    assert x.unpaired_reason == project.unusable["g"] == project.problems[0]
    assert "targets.g.target" in project.problems[0]
    assert "there is no such agent" in project.problems[0]


def test_sets_in_the_folder_of_an_unusable_target_belong_to_no_other_agent(folder: ProjectFolder) -> None:
    folder.write(
        "workbench.toml",
        "[targets.g]\nkind = 'adk'\ntarget = 'home'\n"
        "[targets.h]\nkind = 'adk'\ntarget = 'missing'\npath = 'pkg'\neval_sets = ['x.evalset.json']\n",
    )
    folder.write_agent("other")
    for name in ("home/x", "pkg/x", "pkg/y"):
        folder.write_set(f"{name}.evalset.json")

    project = folder.discover()

    found = {entry.relative: (entry.target, entry.unpaired_reason) for entry in project.eval_sets}
    assert found["pkg/y.evalset.json"] == ("other", None)
    assert found["pkg/x.evalset.json"] == (None, project.unusable["h"])
    target, reason = found["home/x.evalset.json"]
    assert target is None and project.unusable["g"] in (reason or "")


def test_a_set_that_the_agent_next_to_it_does_not_list_has_that_reason(folder: ProjectFolder) -> None:
    folder.write("workbench.toml", "[targets.b]\nkind = 'adk'\ntarget = 'bot'\neval_sets = ['x.evalset.json']\n")
    folder.write_agent("bot")
    folder.write_set("x.evalset.json")
    folder.write_set("bot/y.evalset.json")

    reason = folder.entry("bot/y.evalset.json").unpaired_reason or ""

    assert reason.startswith("no agent was found: eval_sets of target b does not list this set; ")


def test_a_set_that_two_targets_claim_belongs_to_the_first(folder: ProjectFolder) -> None:
    folder.write(
        "workbench.toml",
        "[targets.f]\nkind = 'recorded'\neval_sets = ['*.evalset.json']\n"
        "[targets.g]\nkind = 'recorded'\neval_sets = ['x.evalset.json']\n",
    )
    folder.write_set("x.evalset.json")

    project = folder.discover()

    assert [entry.target for entry in project.eval_sets] == ["f"]
    assert project.problems == ("workbench.toml: targets.g.eval_sets: x.evalset.json already belongs to f",)


def test_criteria_come_from_the_target_or_from_the_nearest_file(folder: ProjectFolder) -> None:
    folder.write_agent("a")
    for name in ("x.evalset.json", "eval/y.evalset.json", "eval/deep/z.evalset.json"):
        folder.write_set(f"a/{name}")
    folder.write("a/test_config.json", "{}")
    folder.write("a/eval_config.json", "{}")
    folder.write("a/eval/deep/eval_config.json", "{}")
    folder.write("test_config.json", "{}")
    folder.write("../test_config.json", "{}")  # above the root

    project = folder.discover()
    z, y, x = project.eval_sets

    assert x.config == y.config == folder.root / "a/test_config.json"
    assert z.config == folder.root / "a/eval/deep/eval_config.json"
    assert project.unused_criteria == (folder.root / "a/eval_config.json", folder.root / "test_config.json")
    configured = project.targets["a"].model_copy(update={"config": folder.root / "c.json"})
    assert find_criteria_file(x.path, configured, root=folder.root) == folder.root / "c.json"


def test_no_criteria_are_taken_from_above_the_root(folder: ProjectFolder) -> None:
    folder.write_agent("a")
    folder.write_set("a/x.evalset.json")
    folder.write("../test_config.json", "{}")

    assert folder.discover().eval_sets[0].config is None


def test_a_folder_without_an_agent_is_refused(folder: ProjectFolder) -> None:
    folder.write("empty/readme.txt")

    with pytest.raises(StoreError, match=r"missing: there is no such agent"):
        make_adk_target(folder.root / "missing", root=folder.root)
    with pytest.raises(StoreError, match=r"has no agent: expected one of agent.py, __init__.py, root_agent.yaml in it"):
        make_adk_target(folder.root / "empty", root=folder.root)
    folder.write("yaml/root_agent.yml", "name: yaml")
    with pytest.raises(
        StoreError, match=r"yaml: has no agent: root_agent.yml is not read: rename it to root_agent.yaml"
    ):
        make_adk_target(folder.root / "yaml", root=folder.root)


def test_an_agent_config_is_an_agent(folder: ProjectFolder) -> None:
    folder.write("desk/root_agent.yaml", "name: desk")
    folder.write_set("desk/x.evalset.json")

    project = folder.discover()

    assert project.targets["desk"].location == "desk"
    assert project.eval_sets[0].target == "desk"


def test_an_agent_can_be_named_by_folder_or_file(folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write_agent("pkg/bot")
    monkeypatch.chdir(folder.root / "pkg")

    by_folder = make_adk_target(Path("bot"), root=folder.root)

    assert by_folder == make_adk_target(folder.root / "pkg/bot/agent.py", root=folder.root)
    assert (by_folder.name, by_folder.path, by_folder.location) == ("bot", folder.root / "pkg", "bot")
    monkeypatch.chdir(folder.root / "pkg/bot")
    assert make_adk_target(Path(), root=folder.root) == by_folder


@pytest.mark.parametrize(
    "text",
    [
        '{"query": "x"}',
        "[1, 2]",
        '[{"query": "{user{id}}"}, {"reference": 1}]',
        '{"compilerOptions": {} /* as tsconfig.test.json has comments */}',
        '["query", "expected_tool_use"',
    ],
)
def test_json_of_other_programs_is_ignored_unless_the_settings_name_it(folder: ProjectFolder, text: str) -> None:
    folder.write_agent("a")
    folder.write("a/web.test.json", text)
    settings = "[targets.t]\nkind = 'adk'\ntarget = 'a'\neval_sets = ['{}']\n"
    assert folder.discover().eval_sets == ()

    folder.write("workbench.toml", settings.format("a/*.test.json"))
    assert folder.discover().eval_sets == ()
    folder.write("workbench.toml", settings.format("a/web.test.json"))
    assert folder.entry("a/web.test.json").target == "t"


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"eval_set_id": "a", ',
        '{"evalSetId": "a"}',
        '{"eval_cases": 3}',
        '{"eval_case": []}',
        "{'eval_set_id': 'a', 'eval_cases': []}",
        "{“eval_cases”: []}",
        "[{'query': 'x', 'reference': 'y'}]",
        '[{"query": "x", "expected_tool_use": []}',
        '[{"name": "a", "data": [], "initial_session": {}}]',
    ],
)
def test_a_broken_set_is_still_a_set(folder: ProjectFolder, text: str) -> None:
    folder.write("a.test.json", text)
    folder.write("b.evalset.json", "whatever it says")

    assert [entry.relative for entry in folder.discover().eval_sets] == ["a.test.json", "b.evalset.json"]


def test_urls_are_datasets_only_of_recorded_targets(folder: ProjectFolder) -> None:
    folder.write(
        "workbench.toml",
        "[targets.stored]\nkind = 'recorded'\n"
        "eval_sets = ['gs://bucket/rows.jsonl', 'https://me:pw@host.example/a.csv?key=hush', "
        "'gs://bucket/rows.jsonl']\n"
        "[targets.f]\nkind = 'function'\ntarget = 'a:b'\neval_sets = ['bq://p.d.t']\n",
    )

    project = folder.discover()

    found_sets = [(entry.relative, entry.target, entry.address) for entry in project.eval_sets]
    assert found_sets == [
        ("gs://bucket/rows.jsonl", "stored", "gs://bucket/rows.jsonl"),
        ("https://host.example/a.csv", "stored", "https://me:pw@host.example/a.csv?key=hush"),
    ]
    assert project.problems == (
        "workbench.toml: targets.stored.eval_sets: gs://bucket/rows.jsonl already belongs to stored",
        "workbench.toml: targets.f.eval_sets: found the address bq://p.d.t, expected a file: "
        "only recorded targets without `target` may have remote datasets",
    )


def test_urls_that_differ_only_in_hidden_parts_are_numbered(folder: ProjectFolder) -> None:
    first, second, third = (f"https://host.example/a.csv?table={name}" for name in "xyz")
    folder.write(
        "workbench.toml",
        f"[targets.one]\nkind = 'recorded'\neval_sets = ['{first}', '{second}']\n"
        f"[targets.two]\nkind = 'recorded'\neval_sets = ['{second}', '{third}']\n",
    )

    project = folder.discover()

    assert [(entry.relative, entry.target, entry.address) for entry in project.eval_sets] == [
        ("https://host.example/a.csv", "one", first),
        ("https://host.example/a.csv (2)", "one", second),
        ("https://host.example/a.csv (3)", "two", third),
    ]
    assert project.problems == (
        "workbench.toml: targets.two.eval_sets: https://host.example/a.csv (2) already belongs to one",
    )
