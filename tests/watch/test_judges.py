"""Watching cases that a model judges: the judge is asked when something has changed, and left alone while it is out."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.engine.test_judge_metrics import LOUDER, answer
from tests.engine.test_judges import METRIC, server, verdict
from tests.llm.servers import Server, gemini_error
from tests.watch.watched import Folder, watching

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
