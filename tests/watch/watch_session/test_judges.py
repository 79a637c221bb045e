"""Watching cases that a model judges: the judge is asked when something has changed, and left alone while it is out."""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path

import pytest

from tests.engine.run_judging.test_judge_metrics import LOUDER, answer
from tests.engine.run_judging.test_judges import METRIC, server, verdict
from tests.llm.servers import Server, gemini_error
from tests.watch.watched import Folder, watching
from workbench.cli.watch_commands import WatchTextPrinter

__all__ = ["server"]  # a fixture


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path)
    made.write("agent.py", "def answer(prompt):\n    return prompt.upper()\n")
    settings = (made.root / "workbench.toml").read_text()
    made.write("workbench.toml", f'{settings}env_file = ".env"\n[judge]\ntries = 1\n')
    made.write(".env", "GOOGLE_API_KEY=k\n")
    made.cases(good="good", bad="bad")
    made.criteria(**{METRIC: {"threshold": 1.0, "judge_model_options": {"num_samples": 1}}})
    return made


async def test_a_judge_that_is_out_is_not_asked_again_and_again(folder: Folder, server: Server) -> None:
    server.answer = lambda _: gemini_error(503, "overloaded")
    async with watching(folder.root) as watched:
        await watched.until_shown(good="ERROR", bad="ERROR")
        await asyncio.sleep(1.0)
        assert len(server.calls) == 2
        folder.write("unrelated.py", "x = 1")
        await asyncio.sleep(1.0)
        assert len(server.calls) == 2

        server.answer = verdict
        folder.write("agent.py", "def answer(prompt):\n    return prompt.upper() + ''\n")
        await watched.until_shown(good="PASSED", bad="FAILED")


async def test_stored_verdicts_that_lack_samples_say_so(
    folder: Folder, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.criteria(**{METRIC: {"threshold": 1.0, "judge_model_options": {"num_samples": 2}}})
    folder.cases(good="good")
    numbers = itertools.count()
    server.answer = lambda call: verdict(call) if next(numbers) == 0 else gemini_error(503, "overloaded")
    lines = WatchTextPrinter(plain=True, verbose=False, reported=())

    async with watching(folder.root) as watched:
        for event in (await watched.until_quiet()).events:
            lines.show(event)
    ran = capsys.readouterr().out
    async with watching(folder.root) as watched:
        for event in (await watched.until_quiet()).events:
            lines.show(event)
    held = capsys.readouterr().out

    assert f"    {METRIC}: judged by 1 of 2 samples\n" in ran
    assert "good  (stored)  judged by fewer samples than asked\n" in held
    for shown in (ran, held):
        assert "1 case: 1 passed, 1 judged by fewer samples than asked\n" in shown


async def test_waiting_for_quota_is_said(folder: Folder, server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    folder.cases(good="good")
    folder.write("workbench.toml", (folder.root / "workbench.toml").read_text().replace("tries = 1", "tries = 2"))
    numbers = itertools.count()
    busy = gemini_error(429, "slow down", retry_delay="1.2s")
    server.answer = lambda call: busy if next(numbers) == 0 else verdict(call)
    lines = WatchTextPrinter(plain=True, verbose=False, reported=())

    async with watching(folder.root) as watched:
        await watched.until_shown(good="PASSED")
        for event in watched.events:
            lines.show(event)

    assert ": waiting 2 s for quota" in capsys.readouterr().err


async def test_another_agent_that_says_the_same_is_judged_from_the_cache(folder: Folder, server: Server) -> None:
    async with watching(folder.root) as watched:
        await watched.until_shown(good="PASSED", bad="FAILED")

        edited = await watched.after(lambda: folder.write("agent.py", "def answer(text):\n    return text.upper()\n"))

        assert edited.verdicts == {"good": "PASSED", "bad": "FAILED"}
        assert len(server.calls) == 2


async def test_each_run_of_a_watch_is_compared_with_the_one_before_it(folder: Folder, server: Server) -> None:
    server.answer = answer
    criteria = {"own": {"threshold": 0.5, "judge_model_options": {"num_samples": 2}}}
    metrics = {"own": {**LOUDER, "baseline": {"run": "latest"}}}
    folder.write("test_config.json", json.dumps({"criteria": criteria, "judge_metrics": metrics}))
    quiet = "def answer(prompt):\n    return prompt\n"
    async with watching(folder.root) as watched:
        first = await watched.until_quiet()
        assert set(first.verdicts.values()) == {"NOT_EVALUATED"}

        quieter = await watched.after(lambda: folder.write("agent.py", quiet))
        assert set(quieter.verdicts.values()) == {"FAILED"}

        back = await watched.after(lambda: folder.write("agent.py", quiet.replace("prompt\n", "prompt.upper()\n")))
        assert set(back.verdicts.values()) == {"PASSED"}
        assert back.change.run + back.change.judged == 2
