"""`workbench history`, `report`, `doctor` and `demo`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import CommandLine


def test_runs_are_listed_newest_first(workbench: CommandLine) -> None:
    workbench("run", "home/light.evalset.json:on")
    workbench("run", "home")

    listed = workbench("history")
    runs = workbench("history", "--format", "json").data["runs"]

    assert "workbench run home/light.evalset.json:on" in listed.out
    assert [run["summary"]["total"] for run in runs] == [2, 1]
    assert runs[0]["run_id"] in listed.out


def test_a_run_is_shown_as_it_was(workbench: CommandLine) -> None:
    live = workbench("run", "home")

    stored = workbench("history", "latest")

    assert stored.out.splitlines()[-1] == live.out.splitlines()[-1]
    assert 'set_light: room: expected "bedroom", got "hall"' in stored.out


def test_a_report_has_what_the_run_had(workbench: CommandLine) -> None:
    live = workbench("run", "home", "--format", "json").data

    stored = workbench("report", live["run_id"][:-1]).data

    assert stored["cases"] == live["cases"]
    assert stored["summary"] == live["summary"]
    assert stored["criteria"] == live["criteria"]
    assert stored["versions"] == live["versions"]


@pytest.mark.parametrize(("name", "start"), [("r.xml", "<?xml"), ("r.md", "# workbench run"), ("r.csv", "run_id,")])
def test_the_name_of_the_file_tells_the_format(workbench: CommandLine, name: str, start: str) -> None:
    workbench("run", "home")

    assert workbench("report", "--output", name).status == 0
    assert (workbench.root / name).read_text(encoding="utf-8").startswith(start)


def test_looking_leaves_nothing_behind(workbench: CommandLine) -> None:
    assert workbench("history").out == "no runs yet\n"
    done = workbench("report")

    assert done.status == 2
    assert "there are no runs yet" in done.error
    assert not (workbench.root / ".workbench").exists()


def test_an_unknown_run_is_one_message(workbench: CommandLine) -> None:
    workbench("run", "home")

    done = workbench("report", "nothing")

    assert done.status == 2
    assert "'nothing'" in done.error


def test_a_changed_set_does_not_break_old_reports(workbench: CommandLine) -> None:
    workbench("run", "home")
    (workbench.root / "home/light.evalset.json").unlink()

    root = ElementTree.fromstring(workbench("report", "--format", "junit").out)

    assert root.get("failures") == "1"


def test_doctor_shows_names_and_never_values(workbench: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "very-secret")
    workbench.write(".env", "export SERVICE_TOKEN=also-secret\n# comment\n")
    settings = (workbench.root / "workbench.toml").read_text()
    workbench.write("workbench.toml", f'{settings}env_file = ".env"\n')

    done = workbench("doctor")

    assert done.status == 0
    for said in (
        "GOOGLE_API_KEY",
        "SERVICE_TOKEN",
        "home: function home.agent:answer",
        "home/light.evalset.json: home",
    ):
        assert said in done.out
    assert "secret" not in done.out + done.error


def test_doctor_names_what_is_wrong(workbench: CommandLine) -> None:
    workbench.write("elsewhere/lost.evalset.json", '{"eval_set_id": "l", "eval_cases": [}')
    workbench.write("workbench.toml", '[run]\nconcurency = 3\n[tui]\ntheme = "drak"\n[keys]\nrun_cas = "r"\n')

    done = workbench("doctor")

    assert done.status == 2
    assert "did you mean 'concurrency'?" in done.out
    assert "there is no theme 'drak'" in done.out
    assert "did you mean 'run_case'?" in done.out
    assert "elsewhere/lost.evalset.json" in done.out


def test_demo_runs_as_the_samples_mean_it(workbench: CommandLine, tmp_path: Path) -> None:
    """Run the samples of this project, except the one that needs google-adk, which has its own tests."""
    folder = tmp_path / "samples"
    source = Path(__file__).parents[3] / "sample_agents"
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("hello_world_adk", ".workbench", "__pycache__"))
    settings = folder / "workbench.toml"
    before, _, rest = settings.read_text().partition("[targets.hello_world_adk]")
    settings.write_text(before + rest[rest.index("\n[") :])

    done = workbench.process("demo", "--path", str(folder))

    assert done.status == 0, done.out + done.error
    assert "verdicts are as expected" in done.out
    assert "FAILED" in done.out


def test_demo_tells_when_a_verdict_is_not_as_meant(workbench: CommandLine) -> None:
    workbench.write("home/expected.json", {"light.evalset.json": {"on": "PASSED", "off": "PASSED"}})

    done = workbench("demo", "--path", str(workbench.root))

    assert done.status == 1
    assert "unexpected: home/light.evalset.json:off: expected PASSED, got FAILED" in done.out


def test_demo_skips_what_needs_a_missing_extra(workbench: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    from workbench.cli import score_commands

    monkeypatch.setattr(score_commands, "_is_installed", lambda module: False)
    settings = (workbench.root / "workbench.toml").read_text()
    workbench.write(
        "workbench.toml",
        f'{settings}\n[targets.adk]\nkind = "adk"\ntarget = "adk_agent"\neval_sets = ["adk_agent/*.json"]\n',
    )
    workbench.write("adk_agent/agent.py", "from google.adk.agents import Agent\nroot_agent = Agent(name='x')\n")
    workbench.add_set("adk_agent/a.evalset.json", {"a": []})
    expected = {"light.evalset.json": {"on": "PASSED", "off": "FAILED"}}
    workbench.write("home/expected.json", expected)
    workbench.write("adk_agent/expected.json", {"a.evalset.json": {"a": "PASSED"}})

    done = workbench("demo", "--path", str(workbench.root))

    assert done.status == 0
    assert "skipped: adk_agent/a.evalset.json" in done.out
    assert "agent-eval-workbench[adk]" in done.out


def test_the_demo_is_a_copy_that_is_kept(workbench: CommandLine, tmp_path: Path) -> None:
    from workbench.cli.score_commands import sample_folder

    first = sample_folder(tmp_path / "samples")
    (first / "mine.txt").write_text("kept")

    assert sample_folder(tmp_path / "samples") == first
    assert (first / "mine.txt").exists()
    assert (first / "home_automation" / "expected.json").exists()
    assert json.loads((first / "home_automation" / "expected.json").read_text())


def test_a_stored_run_has_the_options_that_it_had_when_it_ran(workbench: CommandLine) -> None:
    shown = workbench("run", "home", "--format", "json").data

    assert workbench("report").data["options"] == shown["options"]
