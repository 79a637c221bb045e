"""`workbench history`, `report`, `doctor` and `demo`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

if TYPE_CHECKING:
    from tests.cli.command_line import CommandLine


def test_runs_are_listed_newest_first(workbench: CommandLine) -> None:
    workbench("run", "home/light.evalset.json:on")
    workbench("run", "home")

    result = workbench("history")
    runs = workbench("history", "--format", "json").data["runs"]

    assert "workbench run home/light.evalset.json:on" in result.out
    assert [run["summary"]["total"] for run in runs] == [2, 1]
    assert runs[0]["run_id"] in result.out


def test_a_run_is_shown_as_it_was(workbench: CommandLine) -> None:
    live = workbench("run", "home")

    stored = workbench("history", "latest")

    assert stored.out.splitlines()[-1] == live.out.splitlines()[-1]
    assert 'set_light: room: expected "bedroom", got "hall"' in stored.out


def test_a_report_contains_the_data_of_its_run(workbench: CommandLine) -> None:
    live = workbench("run", "home", "--format", "json").data

    stored = workbench("report", live["run_id"][:-1]).data

    assert stored["cases"] == live["cases"]
    assert stored["summary"] == live["summary"]
    assert stored["criteria"] == live["criteria"]
    assert stored["versions"] == live["versions"]


@pytest.mark.parametrize(
    ("name", "start"),
    [("r.xml", "<?xml"), ("r.md", "# workbench run"), ("r.csv", "run_id,"), ("r.html", "<!DOCTYPE html>")],
)
def test_the_file_name_determines_the_format(workbench: CommandLine, name: str, start: str) -> None:
    workbench("run", "home")

    assert workbench("report", "--output", name).status == 0
    assert (workbench.root / name).read_text(encoding="utf-8").startswith(start)


def test_a_run_writes_the_same_page_without_earlier_runs(workbench: CommandLine) -> None:
    live = workbench("run", "home", "--output", "r.html")
    stored = workbench("report", "--format", "html").out

    assert "1 passed, 1 failed" in live.out
    pages = ((workbench.root / "r.html").read_text(encoding="utf-8"), stored)
    ran, read = (json.loads(page.partition('id="data">')[2].partition("</script>")[0]) for page in pages)
    assert ran["cases"] == read["cases"]
    assert (ran["history"], [run["run_id"] for run in read["history"]]) == ([], [ran["run_id"]])


def test_an_html_report_has_the_runs_before_it(workbench: CommandLine) -> None:
    for _ in range(3):
        workbench("run", "home")
    newest, middle, oldest = (run["run_id"] for run in workbench("history", "--format", "json").data["runs"])

    page = workbench("report", middle, "--format", "html").out

    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    assert [run["run_id"] for run in data["history"]] == [oldest, middle]
    assert newest not in page


def test_viewing_the_history_creates_no_files(workbench: CommandLine) -> None:
    assert workbench("history").out == "no runs yet\n"
    result = workbench("report")

    assert result.status == 2
    assert "there are no runs yet" in result.error
    assert not (workbench.root / ".workbench").exists()


def test_an_unknown_run_gets_one_message(workbench: CommandLine) -> None:
    workbench("run", "home")

    result = workbench("report", "nothing")

    assert result.status == 2
    assert "'nothing'" in result.error


def test_a_changed_set_does_not_break_old_reports(workbench: CommandLine) -> None:
    workbench("run", "home")
    (workbench.root / "home/light.evalset.json").unlink()

    root = ElementTree.fromstring(workbench("report", "--format", "junit").out)

    assert root.get("failures") == "1"


def test_doctor_shows_names_but_never_values(workbench: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "very-secret")
    workbench.write(".env", "export SERVICE_TOKEN=also-secret\n# comment\n")
    settings = (workbench.root / "workbench.toml").read_text()
    workbench.write("workbench.toml", f'{settings}env_file = ".env"\n')

    result = workbench("doctor")

    assert result.status == 0
    for text in (
        "GOOGLE_API_KEY",
        "SERVICE_TOKEN",
        "home: function home.agent:answer",
        "home/light.evalset.json: home",
    ):
        assert text in result.out
    assert "secret" not in result.out + result.error


def test_doctor_reports_mistakes_in_settings_and_sets(workbench: CommandLine) -> None:
    workbench.write("elsewhere/lost.evalset.json", '{"eval_set_id": "l", "eval_cases": [}')
    workbench.write("workbench.toml", '[run]\nconcurency = 3\n[tui]\ntheme = "drak"\n[keys]\nrun_cas = "r"\n')

    result = workbench("doctor")

    assert result.status == 2
    assert "did you mean 'concurrency'?" in result.out
    assert "there is no theme 'drak'" in result.out
    assert "did you mean 'run_case'?" in result.out
    assert "elsewhere/lost.evalset.json" in result.out


def test_demo_gives_the_verdicts_that_the_samples_expect(workbench: CommandLine, tmp_path: Path) -> None:
    """Run the samples of this project, except the one that needs google-adk, which has its own tests."""
    folder = tmp_path / "samples"
    source = Path(__file__).parents[3] / "sample_agents"
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("hello_world_adk", ".workbench", "__pycache__"))
    settings = folder / "workbench.toml"
    before, _, rest = settings.read_text().partition("[targets.hello_world_adk]")
    settings.write_text(before + rest[rest.index("\n[") :])

    result = workbench.process("demo", "--path", str(folder))

    assert result.status == 0, result.out + result.error
    assert "verdicts are as expected" in result.out
    assert "FAILED" in result.out


def test_demo_reports_an_unexpected_verdict(workbench: CommandLine) -> None:
    workbench.write("home/expected.json", {"light.evalset.json": {"on": "PASSED", "off": "PASSED"}})

    result = workbench("demo", "--path", str(workbench.root))

    assert result.status == 1
    assert "unexpected: home/light.evalset.json:off: expected PASSED, got FAILED" in result.out


def test_demo_skips_samples_that_need_a_missing_extra(workbench: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
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

    result = workbench("demo", "--path", str(workbench.root))

    assert result.status == 0
    assert "skipped: adk_agent/a.evalset.json" in result.out
    assert "[adk]" in result.out


def test_demo_keeps_its_copy_of_the_samples(workbench: CommandLine, tmp_path: Path) -> None:
    from workbench.cli.score_commands import sample_folder

    first = sample_folder(tmp_path / "samples")
    (first / "mine.txt").write_text("kept")

    assert sample_folder(tmp_path / "samples") == first
    assert (first / "mine.txt").exists()
    assert (first / "home_automation" / "expected.json").exists()
    assert json.loads((first / "home_automation" / "expected.json").read_text())


def test_a_stored_run_keeps_its_options(workbench: CommandLine) -> None:
    run = workbench("run", "home", "--format", "json").data

    assert workbench("report").data["options"] == run["options"]


def test_the_trend_of_a_page_has_only_whole_runs_of_the_same_cases(workbench: CommandLine) -> None:
    for arguments in ((), ("home/light.evalset.json:on",), ("--failed",), ()):
        workbench("run", *arguments)
    runs = workbench("history", "--format", "json").data["runs"]
    whole = [run["run_id"] for run in runs if run["summary"]["total"] == 2][::-1]

    page = workbench("report", "--format", "html").out
    one = workbench("report", runs[1]["run_id"], "--format", "html").out

    assert _list_trend(page) == whole
    assert len(whole) == 2
    assert _list_trend(one) == [runs[1]["run_id"]]


def _list_trend(page: str) -> list[str]:
    data = json.loads(page.split('id="data">')[1].split("</script>", maxsplit=1)[0].replace("\\u003c", "<"))
    return [run["run_id"] for run in data["history"]]
