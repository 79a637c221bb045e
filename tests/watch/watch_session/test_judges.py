"""Watching cases with a judge model: it is called after changes, but not again while it is unavailable."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.judged import METRIC, serve_judge, verdict
from tests.engine.run_resources.loudness import LOUDER, answer
from tests.llm.servers import Server, gemini_error
from tests.watch.watched import Folder, watch_project
from workbench.cli.watch_commands import WatchTextPrinter
from workbench.watch.watch_events import WatchRunEvent
from workbench.watch.watch_session import _HISTORY_CHECK_INTERVAL


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with serve_judge(monkeypatch) as server:
        monkeypatch.delenv("GOOGLE_API_KEY")  # the key is in the .env file of the target
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    project = Folder(tmp_path)
    project.write("agent.py", "def answer(prompt):\n    return prompt.upper()\n")
    settings = (project.root / "workbench.toml").read_text()
    project.write("workbench.toml", f'{settings}env_file = ".env"\n[judge]\ntries = 1\n')
    project.write(".env", "GOOGLE_API_KEY=k\n")
    project.cases(good="good", bad="bad")
    project.criteria(**{METRIC: {"threshold": 1.0, "judge_model_options": {"num_samples": 1}}})
    return project


async def test_an_unavailable_judge_is_not_called_again_before_a_relevant_change(
    folder: Folder, server: Server
) -> None:
    server.answer = lambda _: gemini_error(503, "overloaded")
    async with watch_project(folder.root) as watch:
        await watch.wait_for_statuses(good="ERROR", bad="ERROR")
        await asyncio.sleep(1.0)
        notices = [each.event for each in watch.events if isinstance(each, WatchRunEvent)]
        assert any("`workbench run --affected` judges them" in str(notice) for notice in notices)
        assert len(server.calls) == 2
        folder.write("unrelated.py", "x = 1")
        await asyncio.sleep(1.0)
        assert len(server.calls) == 2

        server.answer = verdict
        folder.write("agent.py", "def answer(prompt):\n    return prompt.upper() + ''\n")
        await watch.wait_for_statuses(good="PASSED", bad="FAILED")


async def test_stored_verdicts_with_missing_samples_are_marked(
    folder: Folder, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.criteria(**{METRIC: {"threshold": 1.0, "judge_model_options": {"num_samples": 2}}})
    folder.cases(good="good")
    numbers = itertools.count()
    server.answer = lambda call: verdict(call) if next(numbers) == 0 else gemini_error(503, "overloaded")
    lines = WatchTextPrinter(plain=True, verbose=False, reported=())

    async with watch_project(folder.root) as watch:
        for event in (await watch.wait_until_quiet()).events:
            lines.show(event)
    first_output = capsys.readouterr().out
    async with watch_project(folder.root) as watch:
        for event in (await watch.wait_until_quiet()).events:
            lines.show(event)
    second_output = capsys.readouterr().out

    assert f"    {METRIC}: judged by 1 of 2 samples\n" in first_output
    assert "good  (stored)  judged by fewer samples than asked\n" in second_output
    for output in (first_output, second_output):
        assert "1 case: 1 passed, 1 judged by fewer samples than asked\n" in output


async def test_waiting_for_quota_is_reported(
    folder: Folder, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.cases(good="good")
    folder.write("workbench.toml", (folder.root / "workbench.toml").read_text().replace("tries = 1", "tries = 2"))
    numbers = itertools.count()
    busy = gemini_error(429, "slow down", retry_delay="1.2s")
    server.answer = lambda call: busy if next(numbers) == 0 else verdict(call)
    lines = WatchTextPrinter(plain=True, verbose=False, reported=())

    async with watch_project(folder.root) as watch:
        await watch.wait_for_statuses(good="PASSED")
        for event in watch.events:
            lines.show(event)

    assert ": waiting 2 s for quota" in capsys.readouterr().err


async def test_an_unchanged_answer_of_an_edited_agent_is_judged_from_the_cache(folder: Folder, server: Server) -> None:
    async with watch_project(folder.root) as watch:
        await watch.wait_for_statuses(good="PASSED", bad="FAILED")

        edited = await watch.apply(lambda: folder.write("agent.py", "def answer(text):\n    return text.upper()\n"))

        assert edited.verdicts == {"good": "PASSED", "bad": "FAILED"}
        assert len(server.calls) == 2


async def test_each_run_of_a_watch_is_compared_with_the_previous_run(folder: Folder, server: Server) -> None:
    server.answer = answer
    criteria = {"own": {"threshold": 0.5, "judge_model_options": {"num_samples": 2}}}
    metrics = {"own": {**LOUDER, "baseline": {"run": "latest"}}}
    folder.write("test_config.json", json.dumps({"criteria": criteria, "judge_metrics": metrics}))
    quiet = "def answer(prompt):\n    return prompt\n"
    async with watch_project(folder.root) as watch:
        first = await watch.wait_until_quiet()
        assert set(first.verdicts.values()) == {"NOT_EVALUATED"}

        quieter = await watch.apply(lambda: folder.write("agent.py", quiet))
        assert set(quieter.verdicts.values()) == {"FAILED"}

        restored = await watch.apply(lambda: folder.write("agent.py", quiet.replace("prompt\n", "prompt.upper()\n")))
        assert set(restored.verdicts.values()) == {"PASSED"}
        assert restored.change.run + restored.change.judged == 2


@pytest.mark.parametrize("is_manual", [True, False], ids=["manual run", "another program"])
async def test_an_outage_in_another_run_is_not_tried_again_by_the_watch(
    folder: Folder, server: Server, is_manual: bool
) -> None:
    server.answer = lambda _: gemini_error(503, "overloaded")
    async with watch_project(folder.root, catches_up=False) as watch:
        await watch.wait_until_quiet()
        if is_manual:
            manual_run = await watch.start_manual_run("good", "bad")
            await manual_run.wait_until_over()
        else:
            command = (sys.executable, "-m", "workbench", "run", str(folder.root))
            other = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL)
            assert await other.wait() == 3
            await asyncio.sleep(1.5 * _HISTORY_CHECK_INTERVAL)
        assert len(server.calls) == 2

        await watch.apply(lambda: folder.write("unrelated.py", "x = 1"))
        await asyncio.sleep(1.0)
        assert len(server.calls) == 2

        server.answer = verdict
        edited = await watch.apply(lambda: folder.write("agent.py", "def answer(text):\n    return text.upper()\n"))
        assert edited.verdicts == {"good": "PASSED", "bad": "FAILED"}


SLOW = "import asyncio\nLIMIT = 100\nasync def slow(instance):\n    await asyncio.sleep(LIMIT)\n    return 1\n"
DOWN = "async def slow(instance):\n    raise ConnectionError('refused')\n"


@pytest.mark.needs_fork
@pytest.mark.parametrize("code", [SLOW, DOWN], ids=["took too long", "service is down"])
async def test_a_metric_that_got_no_answer_is_computed_again_only_after_a_relevant_change(
    folder: Folder, code: str
) -> None:
    folder.write("metric.py", code)
    metrics = {"slow": {"code_config": {"name": "metric.slow"}}}
    folder.write("test_config.json", json.dumps({"criteria": {"slow": 0.5}, "custom_metrics": metrics}))
    folder.cases(good="good")
    async with watch_project(folder.root, timeout_seconds=2) as watch:
        await watch.wait_for_statuses(good="ERROR")

        unrelated = await watch.apply(lambda: folder.write("unrelated.py", "x = 1"))
        assert unrelated.verdicts == {}

        mended = await watch.apply(lambda: folder.write("metric.py", "def slow(instance):\n    return 1\n"))
        assert mended.verdicts == {"good": "PASSED"}
